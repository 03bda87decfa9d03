//! CRC-32 (IEEE 802.3, as in zip and zlib).

/// A checksum in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc32(u32);

impl Crc32 {
    pub(crate) fn new() -> Self {
        Self(u32::MAX)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let [low, ..] = self.0.to_le_bytes();
            self.0 = TABLE[usize::from(low ^ byte)] ^ self.0 >> 8;
        }
    }

    /// Eight bytes, the high ones first.
    pub(crate) fn number(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    pub(crate) fn finish(self) -> u32 {
        !self.0
    }
}

/// What each byte does to the checksum.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let (mut byte, mut start) = (0, 0_u32);
    while byte < 256 {
        let mut crc = start;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        (byte, start) = (byte + 1, start + 1);
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard_comes_out() {
        let mut crc = Crc32::new();
        crc.bytes(b"123456789");
        assert_eq!(crc.finish(), 0xcbf4_3926);
    }
}
