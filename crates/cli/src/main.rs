//! The tool. 
fn main() {}
