//! What workloads write: bytes that say which step wrote them and for which offset.
//!
//! A cell of 16 bytes reads `SSSSS@OOOOOOOOO` and a newline: number of the step, offset in bytes. So a byte that turns
//! up in the wrong file, or at the wrong place, or from an older time, names its origin.

/// Bytes in a cell.
const CELL: u64 = 16;

/// `len` bytes from offset `off` as step `step` writes them.
pub(crate) fn fill(step: u32, off: u64, len: usize) -> Vec<u8> {
    let end = off + len as u64;
    let mut bytes = Vec::with_capacity(len + 2 * CELL as usize);
    let first = off / CELL * CELL;
    let mut at = first;
    while at < end {
        bytes.extend_from_slice(&cell(step, at));
        at += CELL;
    }
    let skip = (off - first) as usize;
    bytes.drain(..skip);
    bytes.truncate(len);
    bytes
}

/// One cell. By hand: files are filled for every state that is judged.
fn cell(step: u32, at: u64) -> [u8; CELL as usize] {
    let mut out = *b"00000@000000000\n";
    digits(&mut out[..5], u64::from(step));
    digits(&mut out[6..15], at);
    out
}

/// The last decimal digits of a number, as many as there is room for.
fn digits(room: &mut [u8], mut number: u64) {
    for digit in room.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Says what these bytes, which begin at a cell, are: for messages.
pub(crate) fn describe(bytes: &[u8]) -> String {
    let cell = &bytes[..bytes.len().min(CELL as usize)];
    if cell.iter().all(|&byte| byte == 0) {
        return "zeros".to_owned();
    }
    match std::str::from_utf8(cell).ok().and_then(parse) {
        Some((step, offset)) => format!("what step {step} wrote at offset {offset}"),
        None => format!("bytes that no step wrote ({:02x?}...)", &cell[..cell.len().min(8)]),
    }
}

fn parse(text: &str) -> Option<(u32, u64)> {
    let (step, offset) = text.trim_end().split_once('@')?;
    Some((step.parse().ok()?, offset.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_do_not_depend_on_how_a_range_is_cut() {
        let whole = fill(7, 0, 100);
        assert_eq!(&whole[..16], b"00007@000000000\n");
        assert_eq!(fill(12_345, 4096, 16), b"12345@000004096\n");
        assert_eq!(fill(7, 33, 40), whole[33..73]);
        assert_ne!(fill(8, 33, 40), whole[33..73]);
    }

    #[test]
    fn bytes_name_their_origin() {
        assert_eq!(describe(&fill(12, 4096, 64)), "what step 12 wrote at offset 4096");
        assert_eq!(describe(&[0; 64]), "zeros");
        assert!(describe(&[0xff; 64]).starts_with("bytes that no step wrote"));
    }
}
