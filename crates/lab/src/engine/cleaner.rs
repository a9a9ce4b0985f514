//! The page cleaners: each writes a batch of dirty pages at a time, in the order that a crash needs.
//!
//! 1. The log is synced up to the last change of any of them. 2. Their images are written to the cleaner's part of the
//!    double-write area, and that is synced. 3. They are written to their places, and the data file is synced. 4. The
//!    checkpoint may advance.

use super::page::Image;
use super::pool::{Frame, Pool};
use crate::error::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{sleep, spawn};

/// Pages of a batch: those of a part of the double-write area.
pub(super) const BATCH: usize = 128;
/// Tasks that write the pages of a batch past the cache: so many requests are under way.
const WRITERS: usize = 16;

/// How long a cleaner waits that has nothing to write while another shortens the log.
const PAUSE: Duration = Duration::from_micros(100);

/// One cleaner, until the engine stops.
pub(super) fn run(pool: &Arc<Pool>, number: u64, doublewrite: bool, direct: bool) -> Result<()> {
    while let Some(frames) = pool.next_batch(BATCH) {
        let outcome = write(pool, &frames, number, doublewrite, direct);
        if let Err(e) = outcome {
            pool.fail(&e);
            return Err(e);
        }
    }
    Ok(())
}

fn write(pool: &Arc<Pool>, frames: &[Arc<Frame>], number: u64, doublewrite: bool, direct: bool) -> Result<()> {
    let mut images = Vec::with_capacity(frames.len());
    for frame in frames {
        let (content, newest) = pool.freeze(frame);
        let write = pool.image(frame.page).map_or(1, |image| image.write + 1);
        let mut content = Arc::unwrap_or_clone(content);
        content.shrink();
        images.push((Image::new(frame.page, write, Arc::new(content)), newest));
    }
    if let Some(newest) = images.iter().map(|(_, newest)| *newest).max() {
        pool.log.sync(newest)?;
        if doublewrite {
            let only: Vec<Image> = images.iter().map(|(image, _)| image.clone()).collect();
            pool.files.doublewrite(number * BATCH as u64, &only)?;
        }
        in_place(pool, &images, if direct { WRITERS } else { 1 })?;
        pool.files.sync_data()?;
        images.into_iter().for_each(|(image, _)| pool.set_image(image));
        pool.written(frames);
    }
    let long = pool.log_is_long();
    if pool.log.checkpoint(pool.oldest(), long)? {
        pool.log_freed();
    } else if frames.is_empty() {
        // Another cleaner is at it.
        sleep(PAUSE);
    }
    Ok(())
}

fn in_place(pool: &Arc<Pool>, images: &[(Image, u64)], writers: usize) -> Result<()> {
    if writers == 1 {
        return images.iter().try_for_each(|(image, newest)| pool.files.write_page(image, *newest));
    }
    let parts = images.chunks(images.len().div_ceil(writers)).map(<[(Image, u64)]>::to_vec);
    let tasks: Vec<_> = parts
        .map(|part| {
            let pool = Arc::clone(pool);
            spawn("page-writer", move || {
                part.iter().try_for_each(|(image, newest)| pool.files.write_page(image, *newest))
            })
        })
        .collect();
    let ended: Vec<Result<()>> =
        tasks.into_iter().map(|task| task.join().unwrap_or_else(|e| Err(Error::Check(e.to_string())))).collect();
    ended.into_iter().collect()
}
