//! Figures over the values of a sweep: the same numbers as lines of a plot and as a table.

use super::Batch;
use crate::claims::spread;
use crate::record::Record;
use crate::spec::{Plot, Sweep};

/// Figures of systems by the values of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepTable {
    /// The figure.
    pub figure: String,
    /// The values of the sweep.
    pub values: Vec<u64>,
    /// For each system a mean over the seeds for each value; `None` where it was not run or has no such figure.
    pub systems: Vec<(String, Vec<Option<f64>>)>,
}

/// The tables of a batch, one for each figure that its sweep shows; none if it has no sweep.
pub fn sweep_tables(batch: &Batch) -> Vec<SweepTable> {
    let Some(sweep) = &batch.experiment.sweep else { return Vec::new() };
    sweep.show.iter().map(|figure| table(batch, sweep, figure)).collect()
}

fn table(batch: &Batch, sweep: &Sweep, figure: &str) -> SweepTable {
    let mut systems: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for (name, runs) in batch.by_system() {
        let Some((system, value)) = Sweep::split(name) else { continue };
        let Some(at) = sweep.values.iter().position(|known| *known == value) else { continue };
        let records: Vec<&Record> = runs.iter().map(|run| &run.record).collect();
        let mean = spread(figure, &records).map(|(mean, ..)| mean);
        let row = match systems.iter().position(|(known, _)| known == system) {
            Some(row) => row,
            None => {
                systems.push((system.to_owned(), vec![None; sweep.values.len()]));
                systems.len() - 1
            }
        };
        systems[row].1[at] = mean;
    }
    SweepTable { figure: figure.to_owned(), values: sweep.values.clone(), systems }
}

/// The lines of a plot over the sweep: their names, which system and which figure they are of, their points.
pub(super) fn lines(plot: &Plot, batch: &Batch) -> impl Iterator<Item = (String, (usize, usize), Vec<(f64, f64)>)> {
    let tables: Vec<SweepTable> = match &batch.experiment.sweep {
        Some(sweep) => plot.series.iter().map(|figure| table(batch, sweep, figure)).collect(),
        None => Vec::new(),
    };
    let several = tables.len() > 1;
    let at = batch.experiment.sweep.as_ref().filter(|_| !plot.against.is_empty());
    let at: Vec<_> = at.map(|sweep| table(batch, sweep, &plot.against).systems).unwrap_or_default();
    let against = !plot.against.is_empty();
    tables.into_iter().enumerate().flat_map(move |(series, table)| {
        let SweepTable { figure, values, systems } = table;
        let (at, one) = (at.clone(), systems.len() <= 1);
        systems.into_iter().enumerate().map(move |(number, (system, means))| {
            let place = if one { (series, 0) } else { (number, series) };
            let at = at.iter().find(|(name, _)| *name == system).map(|(_, at)| at.clone()).unwrap_or_default();
            let name = match (system.is_empty(), several) {
                (true, _) => figure.clone(),
                (false, true) => format!("{system}: {figure}"),
                (false, false) => system,
            };
            let own = values.iter().map(|value| Some(*value as f64));
            let at: Vec<Option<f64>> = if against { at } else { own.collect() };
            let mut points: Vec<(f64, f64)> = at.into_iter().zip(means).filter_map(|(x, y)| x.zip(y)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            (name, place, points)
        })
    })
}
