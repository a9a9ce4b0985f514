//! Benchmarks and the soak, in short.

mod gc;
mod hostile;
mod real;
mod soak;
