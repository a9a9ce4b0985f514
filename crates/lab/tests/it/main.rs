//! Experiments in virtual time: what runs, what it prints, what it claims.

mod browser;
mod compared;
mod d2fs;
mod devgc;
mod filebench;
mod fill;
mod iplfs;
mod journal;
mod metadata;
mod model;
mod own_placement;
mod own_victims;
mod results;
mod runs;
mod scalelfs;
mod sensitivity;
mod tpcc;
mod victims;
mod ycsb;
