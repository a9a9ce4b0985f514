//! Benchmarks and the soak, in short.

mod gc;
mod real;
mod soak;
