//! Whether an area of the format that must hold nothing does.

/// Whether all bytes are zero; in pieces that the compiler turns into wide instructions.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|piece| piece.iter().fold(0, |all, byte| all | byte) == 0)
}
