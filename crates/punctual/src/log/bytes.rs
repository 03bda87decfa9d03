//! Variable-length integers (LEB128) and differences modulo 2^64.

use super::codec::DecodeError;

/// Appends `value` as LEB128: seven bits a byte, low bits first, the top bit set while more come.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = u8::try_from(value & 0x7f).expect("seven bits fit");
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Appends `to - from` modulo 2^64, small differences of either sign being short.
pub(super) fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    put_signed(out, to.wrapping_sub(from).cast_signed());
}

/// Appends `value` in zigzag order: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value << 1 ^ value >> 63).cast_unsigned());
}

/// What is left of a block.
#[derive(Debug)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// All of `rest`.
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&first, rest) = self.rest.split_first().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(first)
    }

    pub(super) fn u32_le(&mut self) -> Result<u32, DecodeError> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*first))
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds the one bit that is left of 64.
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Overflow);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Overflow)
    }

    /// A text of UTF-8 after its length.
    pub(super) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let len = self.varint_as("text")?;
        let (text, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Short)?;
        self.rest = rest;
        core::str::from_utf8(text).map_err(|_| DecodeError::Range("text"))
    }

    /// A varint that must fit `T`; `field` names it in the error.
    pub(super) fn varint_as<T: TryFrom<u64>>(
        &mut self,
        field: &'static str,
    ) -> Result<T, DecodeError> {
        T::try_from(self.varint()?).map_err(|_| DecodeError::Range(field))
    }

    pub(super) fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// `from` plus the stored difference, modulo 2^64.
    pub(super) fn difference(&mut self, from: u64) -> Result<u64, DecodeError> {
        Ok(from.wrapping_add_signed(self.signed()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_of_two_times_is_read_back() {
        let points = [0, 1, 63, 64, 1 << 32, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];
        for from in points {
            for to in points {
                let mut out = Vec::new();
                put_difference(&mut out, from, to);
                assert_eq!(Bytes::new(&out).difference(from), Ok(to), "{from} to {to}");
            }
        }
    }

    #[test]
    fn an_integer_of_more_than_64_bits_is_refused() {
        let mut over = vec![0xff; 9];
        over.push(0x02);
        assert_eq!(Bytes::new(&over).varint(), Err(DecodeError::Overflow));
        assert_eq!(Bytes::new(&[0x80; 11]).varint(), Err(DecodeError::Overflow));
        assert_eq!(Bytes::new(&[0x80; 3]).varint(), Err(DecodeError::Short));
    }
}
