//! The library facade and the `steadyfs` command: what a user sees.
