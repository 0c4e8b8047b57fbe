//! Rounds over designs that report their own figures, each set up once: other programs, or designs in processes of
//! their own.
//!
//! Each round goes over all designs, so that a disturbance of the machine affects all of them alike. (Designs that are
//! functions of this process have [`rounds`](super::rounds), which also repeats disturbed runs.)

use super::choice::{Absent, Listed};
use super::progress::Progress;

/// What is compared, and how often.
pub(crate) struct Contest<'a, D> {
    /// The case's name: the beginning of progress lines.
    pub(crate) case: &'a str,
    pub(crate) designs: &'a [D],
    /// Rounds.
    pub(crate) reps: usize,
}

/// A design that was set up, and its readings.
pub(crate) type Readings<S, R> = Result<(S, Vec<R>), Absent>;

impl<D: Listed> Contest<'_, D> {
    /// Sets each design up and warms it up by `begin`, then has it read once a round by `read`. A design that is
    /// missing, or fails, takes no further part. Returns the readings in the order of the designs.
    pub(crate) fn run<S, R>(
        &self,
        progress: &mut Progress,
        mut begin: impl FnMut(&D) -> Result<S, Absent>,
        mut read: impl FnMut(&D, &mut S) -> Result<R, Absent>,
    ) -> Vec<Readings<S, R>> {
        let (case, reps) = (self.case, self.reps);
        let mut all = Vec::with_capacity(self.designs.len());
        for design in self.designs {
            progress.say(&format!("{case}: warming up {}", design.name()));
            all.push(begin(design).map(|state| (state, Vec::with_capacity(reps))));
        }
        for round in 1..=reps {
            for (design, running) in self.designs.iter().zip(&mut all) {
                let name = design.name();
                progress.say(&format!("{case}: round {round} of {reps}, {name}"));
                let Ok((state, readings)) = running else {
                    continue;
                };
                match read(design, state) {
                    Ok(reading) => readings.push(reading),
                    Err(absent) => *running = Err(absent),
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Absent, Contest, Progress};
    use crate::harness::choice::listed;

    #[derive(Clone, Copy)]
    struct Named(&'static str);
    listed!(Named: |it| it.0, it.0);

    #[test]
    fn a_design_that_fails_takes_no_further_part_and_the_others_go_on() {
        // Breaks if a missing design is asked again, a failure ends the others, or readings change their order.
        let contest = Contest {
            case: "case",
            designs: &[Named("missing"), Named("fails"), Named("works")],
            reps: 3,
        };
        let mut asked = Vec::new();
        let begin = |design: &Named| match design.0 {
            "missing" => Err(Absent("missing".into())),
            _ => Ok(0),
        };
        let all = contest.run(&mut Progress::new(false), begin, |design, state| {
            asked.push(design.0);
            *state += 1;
            match design.0 {
                "fails" if *state == 2 => Err(Absent("failed".into())),
                _ => Ok(*state),
            }
        });
        assert_eq!(asked, ["fails", "works", "fails", "works", "works"]);
        let readings: Vec<_> = all.into_iter().map(|it| it.map(|(_, r)| r).ok()).collect();
        assert_eq!(readings, [None, None, Some(vec![1, 2, 3])]);
    }
}
