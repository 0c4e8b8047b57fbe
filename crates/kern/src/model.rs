//! [`Model`]: runs a scenario of threads in many orders under a schedule checker, and counts the orders.
//!
//! Built for the checkers only. loom runs every order within the bound of preemptions. shuttle runs random orders: in
//! one half a switch may come anywhere; in the other half there are few switches, so the checker tries more places for
//! each.
//!
//! Under loom `MODEL_MORE_SWITCHES` is added to each bound, for a longer search: each additional switch takes about ten
//! times as long. Under shuttle `MODEL_MORE_RUNS` multiplies each number of orders, and `MODEL_SEED` is the seed;
//! without it each model has its own, always the same. A failure prints the seed and its schedule. The number of orders
//! is written to standard error directly, because the test harness hides the output of tests: so a run of all models
//! shows how much it checked.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// How a scenario is run.
#[derive(Clone, Debug)]
#[cfg_attr(loom, allow(dead_code))] // seed and number are of random orders
pub struct Model {
    name: String,
    switches: Option<usize>,
    runs: usize,
    seed: u64,
}

impl Model {
    /// 5,000 random orders, or all with at most three preemptions.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            switches: Some(3),
            runs: 5000,
            seed: 3,
        }
    }

    /// How often one run preempts a thread. Switches where a thread waits or ends do not count.
    #[must_use]
    pub fn switches(mut self, switches: usize) -> Self {
        self.switches = Some(switches);
        self
    }

    /// No bound on preemptions. Under shuttle: a switch may come anywhere, in all runs.
    #[must_use]
    pub fn any_switches(mut self) -> Self {
        self.switches = None;
        self
    }

    /// How many random orders are tried.
    #[must_use]
    pub fn runs(mut self, runs: usize) -> Self {
        self.runs = runs;
        self
    }

    /// The seed of the random orders, unless `MODEL_SEED` says another.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs `scenario` in all these orders.
    ///
    /// # Panics
    ///
    /// If the scenario panics in one of them, or if there were fewer orders than expected.
    pub fn check(self, scenario: impl Fn() + Send + Sync + 'static) {
        let orders = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&orders);
        let begin = Instant::now();
        self.run(Arc::new(move || {
            counted.fetch_add(1, Relaxed);
            scenario();
        }));
        let orders = orders.load(Relaxed);
        #[cfg(all(shuttle, not(loom)))]
        assert!(orders >= self.runs, "{orders} orders");
        let _ = writeln!(
            std::io::stderr(),
            "{}: {orders} orders in {:.1?}",
            self.name,
            begin.elapsed()
        );
    }

    #[cfg(loom)]
    fn run(&self, scenario: Arc<impl Fn() + Send + Sync + 'static>) {
        let mut model = loom::model::Builder::new();
        let more = number("MODEL_MORE_SWITCHES").unwrap_or(0) as usize;
        model.preemption_bound = self.switches.map(|n| n + more);
        model.max_branches = 50_000;
        model.check(move || scenario());
    }

    #[cfg(all(shuttle, not(loom)))]
    fn run(&self, scenario: Arc<impl Fn() + Send + Sync + 'static>) {
        use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
        let seed = number("MODEL_SEED").unwrap_or(self.seed);
        println!("{}: MODEL_SEED={seed}", self.name);
        let runs = self.runs * number("MODEL_MORE_RUNS").unwrap_or(1) as usize;
        let seldom = self.switches.map_or(0, |_| runs / 2);
        let anywhere = RandomScheduler::new_from_seed(seed, runs - seldom);
        let mut schedulers: Vec<Box<dyn Scheduler + Send>> = vec![Box::new(anywhere)];
        if let Some(switches) = self.switches {
            schedulers.push(Box::new(PctScheduler::new_from_seed(
                seed, switches, seldom,
            )));
        }
        for scheduler in schedulers {
            let scenario = Arc::clone(&scenario);
            let mut config = shuttle::Config::new();
            config.stack_size = 1 << 18;
            shuttle::Runner::new(scheduler, config).run(move || scenario());
        }
    }
}

/// The number that a variable of the environment holds.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}
