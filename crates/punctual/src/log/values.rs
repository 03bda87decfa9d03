//! Values of a change that are more than one integer.

use punctual_sched::config::{Limit, Settings};
use punctual_sched::impair::Loss;
use punctual_sched::units::Probability;
use punctual_sched::{Change, Duration};

use super::bytes::{Bytes, put_varint};
use super::codec::DecodeError;

/// A byte for the model, then its probabilities in their order on the command line.
pub(super) fn put_loss(loss: Loss, out: &mut Vec<u8>) {
    let (model, shares): (u8, &[Probability]) = match loss {
        Loss::None => (0, &[]),
        Loss::Random { probability, correlation } => (1, &[probability, correlation]),
        Loss::GilbertElliott { p, r, one_minus_h, one_minus_k } => {
            (2, &[p, r, one_minus_h, one_minus_k])
        }
        Loss::FourState { p13, p31, p32, p23, p14 } => (3, &[p13, p31, p32, p23, p14]),
    };
    out.push(model);
    for share in shares {
        put_varint(out, share.as_raw().into());
    }
}

pub(super) fn loss(bytes: &mut Bytes<'_>) -> Result<Loss, DecodeError> {
    let model = bytes.byte()?;
    let mut share = || bytes.varint_as("loss").map(Probability::from_raw);
    Ok(match model {
        0 => Loss::None,
        1 => Loss::Random { probability: share()?, correlation: share()? },
        2 => Loss::GilbertElliott {
            p: share()?,
            r: share()?,
            one_minus_h: share()?,
            one_minus_k: share()?,
        },
        3 => Loss::FourState {
            p13: share()?,
            p31: share()?,
            p32: share()?,
            p23: share()?,
            p14: share()?,
        },
        _ => return Err(DecodeError::Range("loss")),
    })
}

pub(super) fn limit(bytes: &mut Bytes<'_>) -> Result<Limit, DecodeError> {
    match bytes.byte()? {
        0 => Ok(Limit::Packets(bytes.varint_as("limit")?)),
        1 => Ok(Limit::Bytes(bytes.varint()?)),
        2 => Ok(Limit::Time(Duration::from_nanos(bytes.varint()?))),
        _ => Err(DecodeError::Range("limit")),
    }
}

/// A byte for the unit, then the number.
pub(super) fn put_limit(limit: Limit, out: &mut Vec<u8>) {
    let (kind, value) = match limit {
        Limit::Packets(packets) => (0, packets.into()),
        Limit::Bytes(bytes) => (1, bytes),
        Limit::Time(span) => (2, span.as_nanos()),
    };
    out.push(kind);
    put_varint(out, value);
}

/// Their number, then each one's name and value as they are written, with their lengths.
pub(super) fn put_others(others: &Settings, out: &mut Vec<u8>) {
    put_varint(out, others.iter().count() as u64);
    for (name, value) in others.iter() {
        for text in [name, value] {
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Adds them to `change`. Each has to be a parameter that is in no field of it, with a value that
/// it can have; so what is read has the bounds of [`Change::set`], and is written the same again.
pub(super) fn others(bytes: &mut Bytes<'_>, change: &mut Change) -> Result<(), DecodeError> {
    const WRONG: DecodeError = DecodeError::Range("change");
    let fields = Change { others: Settings::default(), ..change.clone() };
    let count: u64 = bytes.varint()?;
    if count == 0 {
        return Err(WRONG);
    }
    for before in 0..count {
        let (name, value) = (bytes.text()?, bytes.text()?);
        change.set(name, value).map_err(|_| WRONG)?;
        // One that went to a field, or stood there before, was not written by us.
        let kept = change.others.iter().count() as u64 == before + 1;
        if !kept || fields != (Change { others: Settings::default(), ..change.clone() }) {
            return Err(WRONG);
        }
    }
    Ok(())
}
