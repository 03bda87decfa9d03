//! Records of a log, and files that claim to be logs: each is read to its end or refused, and what
//! was read is written and read again the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual::log::{Bytes, Decoder, Encoder, Entry, LogReader};

fuzz_target!(|bytes: &[u8]| {
    records(bytes);
    let Ok(mut reader) = LogReader::new(bytes) else { return };
    // Each record takes at least a byte.
    for _ in 0..=bytes.len() {
        match reader.read() {
            Ok(Entry::End(_)) | Err(_) => return,
            Ok(Entry::Record(..)) => {}
        }
    }
    panic!("more records than bytes");
});

/// What stands in a block of a log, whose checksum keeps a fuzzer out.
fn records(bytes: &[u8]) {
    let (mut rest, mut decoder, mut records) = (Bytes::new(bytes), Decoder::default(), Vec::new());
    while !rest.is_empty() {
        let before = rest.len();
        let Ok(record) = decoder.decode(&mut rest) else { break };
        assert!(rest.len() < before, "{record:?} took no byte");
        records.push(record);
    }
    let (mut encoder, mut written) = (Encoder::default(), Vec::new());
    records.iter().for_each(|record| encoder.encode(record, &mut written));
    let (mut rest, mut decoder) = (Bytes::new(&written), Decoder::default());
    for record in &records {
        assert_eq!(decoder.decode(&mut rest).as_ref(), Ok(record));
    }
    assert!(rest.is_empty());
}
