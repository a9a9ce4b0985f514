//! Decoding LZO1X streams, plain (version 0) and with runs of zeros (version 1, "LZO-RLE").
//!
//! Written from the description of the bit stream in Linux' documentation (staging/lzo.rst). A stream is a sequence of
//! instructions, each a copy of earlier output and up to three literal bytes after it, or a longer string of literals.
//! Every read and write is checked: a damaged stream gives an error, never more output than the caller has room for.

/// The fault of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// It ends in the middle of an instruction.
    Truncated,
    /// It holds more than the caller expects.
    TooLong,
    /// It refers to output before the beginning.
    BadDistance,
    /// An instruction that is not allowed where it stands, or an unknown version.
    BadInstruction,
}

type Result<T> = std::result::Result<T, Damage>;

/// Literals copied by the instruction before, as far as the next one depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// None: the next short instruction is a string of literals.
    None,
    /// One to three: the next short instruction copies two bytes.
    Few,
    /// Four or more: the next short instruction copies three bytes from further away.
    Many,
}

struct Decoder<'a> {
    input: &'a [u8],
    at: usize,
    output: &'a mut [u8],
    done: usize,
}

/// Decodes a whole stream; returns how many bytes it gave.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Result<usize> {
    let mut d = Decoder { input, at: 0, output, done: 0 };
    let runs = d.version()?;
    let mut after = d.first()?;
    loop {
        let op = d.byte()?;
        let literals = match op {
            0..=15 if after == After::None => {
                let length = 3 + d.length(usize::from(op), 15)?;
                d.literals(length)?;
                after = After::Many;
                continue;
            }
            0..=15 => {
                let (base, length) = if after == After::Few { (1, 2) } else { (2049, 3) };
                let distance = base + usize::from(op >> 2) + (usize::from(d.byte()?) << 2);
                d.copy(distance, length)?;
                op & 3
            }
            16..=31 => {
                let low = usize::from(op & 7);
                let high = usize::from(op & 8) << 11;
                if runs && high != 0 && d.is_run() {
                    let literals = d.word()? as u8 & 3;
                    let length = (usize::from(d.byte()?) << 3 | low) + 4;
                    d.zeros(length)?;
                    literals
                } else {
                    let length = 2 + d.length(low, 7)?;
                    let word = d.word()?;
                    let distance = 16384 + high + usize::from(word >> 2);
                    if distance == 16384 {
                        return d.finish();
                    }
                    d.copy(distance, length)?;
                    word as u8 & 3
                }
            }
            32..=63 => {
                let length = 2 + d.length(usize::from(op & 31), 31)?;
                let word = d.word()?;
                d.copy(1 + usize::from(word >> 2), length)?;
                word as u8 & 3
            }
            64.. => {
                let length = if op < 128 { 3 + usize::from(op >> 5 & 1) } else { 5 + usize::from(op >> 5 & 3) };
                let distance = 1 + usize::from(op >> 2 & 7) + (usize::from(d.byte()?) << 3);
                d.copy(distance, length)?;
                op & 3
            }
        };
        d.literals(usize::from(literals))?;
        after = if literals == 0 { After::None } else { After::Few };
    }
}

impl Decoder<'_> {
    fn byte(&mut self) -> Result<u8> {
        let byte = *self.input.get(self.at).ok_or(Damage::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    /// Two bytes, the lower first.
    fn word(&mut self) -> Result<u16> {
        Ok(u16::from(self.byte()?) | u16::from(self.byte()?) << 8)
    }

    /// The bit stream's version byte, if there is one; true if the stream may hold runs of zeros.
    fn version(&mut self) -> Result<bool> {
        if self.input.len() < 5 || self.input[0] != 17 {
            return Ok(false);
        }
        self.at = 2;
        match self.input[1] {
            version @ 0..=1 => Ok(version == 1),
            _ => Err(Damage::BadInstruction),
        }
    }

    /// The first instruction, which may be a string of literals in a form of its own.
    fn first(&mut self) -> Result<After> {
        let op = *self.input.get(self.at).ok_or(Damage::Truncated)?;
        if op < 18 {
            // An ordinary instruction; there is nothing to copy from yet, which the copy finds out.
            return Ok(After::None);
        }
        self.at += 1;
        let length = usize::from(op - 17);
        self.literals(length)?;
        Ok(if length < 4 { After::Few } else { After::Many })
    }

    /// A length that its instruction holds, or that goes on in further bytes if the instruction holds 0.
    fn length(&mut self, short: usize, base: usize) -> Result<usize> {
        if short != 0 {
            return Ok(short);
        }
        let mut length = base;
        loop {
            let byte = self.byte()?;
            length += if byte == 0 { 255 } else { usize::from(byte) };
            if byte != 0 {
                return Ok(length);
            }
        }
    }

    /// Whether the distance that follows marks a run of zeros.
    fn is_run(&self) -> bool {
        matches!(self.input.get(self.at..self.at + 2), Some([low, 0xFF]) if low & 0xFC == 0xFC)
    }

    fn room(&mut self, length: usize) -> Result<&mut [u8]> {
        let end = self.done.checked_add(length).filter(|end| *end <= self.output.len()).ok_or(Damage::TooLong)?;
        let room = &mut self.output[self.done..end];
        self.done = end;
        Ok(room)
    }

    fn literals(&mut self, length: usize) -> Result<()> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.input.len()).ok_or(Damage::Truncated)?;
        let input = &self.input[self.at..end];
        self.at = end;
        self.room(length)?.copy_from_slice(input);
        Ok(())
    }

    fn zeros(&mut self, length: usize) -> Result<()> {
        self.room(length)?.fill(0);
        Ok(())
    }

    /// Repeats earlier output, which may overlap what it makes.
    fn copy(&mut self, distance: usize, length: usize) -> Result<()> {
        let from = self.done.checked_sub(distance).ok_or(Damage::BadDistance)?;
        self.room(length)?;
        for i in from..from + length {
            self.output[i + distance] = self.output[i];
        }
        Ok(())
    }

    /// The end mark: nothing may follow it.
    fn finish(self) -> Result<usize> {
        if self.at == self.input.len() { Ok(self.done) } else { Err(Damage::BadInstruction) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const END: [u8; 3] = [0x11, 0, 0];

    fn decoded(parts: &[&[u8]], room: usize) -> Result<Vec<u8>> {
        let mut output = vec![0xEE; room];
        let n = decode(&parts.concat(), &mut output)?;
        output.truncate(n);
        Ok(output)
    }

    #[test]
    fn every_instruction_does_what_its_description_says() {
        let text = b"abcdefgh";
        // First byte 17 + 8: eight literals.
        let head = [&[25], &text[..]].concat();
        assert_eq!(decoded(&[&head, &END], 8).unwrap(), text);
        // 0 1 L D D D S S: 3 bytes from distance 1 + 3, then 2 literals.
        assert_eq!(decoded(&[&head, &[0b0100_1110, 0], b"xy", &END], 20).unwrap(), b"abcdefghefgxy");
        // 1 L L D D D S S: 8 bytes from distance 1, which overlap themselves.
        assert_eq!(decoded(&[&head, &[0b1110_0000, 0], &END], 20).unwrap(), b"abcdefghhhhhhhhh");
        // 0 0 1 L L L L L: 2 + 4 bytes from distance 7 + 1.
        assert_eq!(decoded(&[&head, &[0b0010_0100, 7 << 2, 0], &END], 20).unwrap(), b"abcdefghabcdef");
        // The same with a long length: 2 + 31 + 9.
        let long = decoded(&[&head, &[0b0010_0000, 9, 7 << 2, 0], &END], 50).unwrap();
        assert_eq!(long, text.repeat(7)[..50]);
        // 0 0 0 0 D D S S after few literals: 2 bytes from distance 1 + 1.
        assert_eq!(decoded(&[&head, &[0b0100_0001, 0], b"z", &[0b0000_0100, 0], &END], 20).unwrap(), b"abcdefghhhhzhz");
        // 0 0 0 0 L L L L after none: 3 + 1 literals.
        assert_eq!(decoded(&[&head, &[0b0100_0000, 0, 1], b"wxyz", &END], 20).unwrap(), b"abcdefghhhhwxyz");
    }

    #[test]
    fn far_copies_and_runs_of_zeros() {
        let zeros = |n: usize| -> Vec<u8> {
            // 0 0 0 1 1 L L L, distance all ones: a run of (X << 3 | L) + 4.
            vec![0b0001_1000 | (n - 4) as u8 & 7, 0xFC, 0xFF, ((n - 4) >> 3) as u8]
        };
        let start = [17, 1, 21, b'a', b'b', b'c', b'd'];
        let runs: Vec<u8> = (0..10).flat_map(|_| zeros(2048)).collect();
        let plain = decoded(&[&start, &runs, &END], 4 + 20480).unwrap();
        assert_eq!((&plain[..4], plain.len()), (&b"abcd"[..], 4 + 20480));
        assert!(plain[4..].iter().all(|byte| *byte == 0));
        // 0 0 0 1 H L L L: 2 + L bytes from distance 16384 + D, then literals.
        let far = |length: u8, by: u16, literals: &[u8]| {
            let word = (by << 2 | literals.len() as u16).to_le_bytes();
            decoded(&[&start, &runs, &[0b0001_0000 | (length - 2)], &word, literals, &END], 30_000).unwrap()[20484..]
                .to_vec()
        };
        assert_eq!(far(4, 4100, b""), b"abcd");
        assert_eq!(far(4, 4098, b"!"), [b'c', b'd', 0, 0, b'!']);
        assert_eq!(far(5, 1, b""), [0; 5]);
        // Without version 1 the same bits are a copy from far before the beginning.
        assert_eq!(decoded(&[&[21], b"abcd", &zeros(100), &END], 30_000), Err(Damage::BadDistance));
    }

    /// What lzop 1.04 (liblzo2 2.10) makes of the text below, at levels 1 and 9.
    const BY_LZOP: [&str; 2] = [
        "096c696e652030206f6620300a8d01316d0131ad01346d0132ad01396d0133ae013136710134b2013235710135b10133850336b2013132\
         6403de0a32377001c00b8c01c10b328806e40b8811c60b33336806c50b328013e40b9001c40b9404c10b332ac902339009c60b32387009\
         c40bb001c40bb804c40ba00831650131880eec169001c40bb814c50b318c0ec40ba81bc40b8c1ec00b2b3004b824c40ba028c40ba82be4\
         0b9c24c40b9431c00b881ec00b9c12cc218411d80a9c02d40a9c05d00a9c08cc0ab43ad00aa80fd40ab012d80a2bb802a019c00b841cc0\
         0ba81fe40b8811c40bb825c40bb43ae40b9414c416943ac00bb032c40bb835c40ba039c40bb001c40bb804c40ba008316401b43ac40bb0\
         11c40bb814c40bb73a300a0020000b00009489803fc432943bc0328c500d320a6c696e652039206f6620330a6c69110000",
        "1d6c696e652030206f6620300a8d01316d0131ad01346d0132ad01396d0133cd0436710134b2013235710135b10133850336d90432295e\
         0132372961013729620132362a650130296601333329660132312a65013129650133296101332aca02333029660132382acd02382acd02\
         30296401a008316401a90e322a3102332a9902342a0103352a69033629cc03323004b924322a0105332a6905342ad10535293506362994\
         0631f506302958012abd023429510139294d01312ab402a90f302a500232b802a11933298503342ae903352a5104362ab904302a200532\
         8905332a84052ac902332b8505382acd02382acd02303758082abd09312acd02312a5508332abc09c5640020000b000020116411110000",
    ];

    #[test]
    fn streams_of_another_program_are_understood() {
        let text: String = (0..64).map(|i| format!("line {} of {}\n", i * i % 37, i % 7)).collect();
        let text = [text.as_bytes(), &[0; 300], &text.as_bytes()[..50]].concat();
        for hex in BY_LZOP {
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let stream: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            assert_eq!(decoded(&[&stream], text.len()).unwrap(), text);
            for cut in 0..stream.len() {
                assert!(decoded(&[&stream[..cut]], text.len()).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn damage_is_named() {
        assert_eq!(decoded(&[&[]], 10), Err(Damage::Truncated));
        assert_eq!(decoded(&[&[25], b"abc"], 10), Err(Damage::Truncated));
        assert_eq!(decoded(&[&[25], b"abcdefgh", &END], 7), Err(Damage::TooLong));
        assert_eq!(decoded(&[&[25], b"abcdefgh", &[0b0010_0100, 8 << 2, 0], &END], 70), Err(Damage::BadDistance));
        assert_eq!(decoded(&[&[25], b"abcdefgh", &END, &[0]], 70), Err(Damage::BadInstruction));
        assert_eq!(decoded(&[&[17, 9, 21], b"abcd", &END], 70), Err(Damage::BadInstruction));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_without_harm(input in prop::collection::vec(any::<u8>(), 0..300), room in 0usize..5000) {
            let mut output = vec![0; room];
            if let Ok(n) = decode(&input, &mut output) {
                prop_assert!(n <= room);
            }
        }
    }
}
