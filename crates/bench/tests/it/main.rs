//! Benchmarks and the soak, in short.

mod gc;
mod soak;
