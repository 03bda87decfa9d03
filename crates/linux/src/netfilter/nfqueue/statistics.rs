//! `/proc/net/netfilter/nfnetlink_queue`: the kernel's own account of each queue.

use std::io;

/// One line of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStatistics {
    /// Netlink address of the socket that holds the queue.
    pub owner: u32,
    /// Packets that wait for a verdict.
    pub waiting: u32,
    /// Bytes copied of each packet.
    pub copy_range: u32,
    /// Packets lost because the queue held `max_len` of them.
    pub dropped_full: u32,
    /// Packets lost because the socket's receive buffer had no room.
    pub dropped_receive_buffer: u32,
    /// The id of the latest packet.
    pub last_id: u32,
}

/// The kernel's account of queue `number` in the calling thread's network namespace; `None` when
/// nobody is bound to it.
///
/// Needs `/proc`, and the right to read the file: its mode is 0440, and its owner is whoever was
/// root of the user namespace when the network namespace was made. So in a user namespace write
/// the `uid_map` first, make the network namespace afterwards; made together, the file belongs to
/// nobody there and this fails with `EACCES`.
pub fn queue_statistics(number: u16) -> io::Result<Option<QueueStatistics>> {
    // Not /proc/net: that is the namespace of the process's first thread.
    let text = std::fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue")?;
    Ok(text.lines().filter_map(parse_line).find(|&(found, _)| found == number).map(|(_, row)| row))
}

/// Columns: queue number, netlink address of its owner, packets waiting, copy mode, copy range,
/// dropped (queue full), dropped (receive buffer full), latest id, and a 1.
fn parse_line(line: &str) -> Option<(u16, QueueStatistics)> {
    let mut columns = line.split_ascii_whitespace();
    let number = columns.next()?.parse().ok()?;
    let mut next = || columns.next()?.parse::<u32>().ok();
    let owner = next()?;
    let waiting = next()?;
    let _copy_mode = next()?;
    let copy_range = next()?;
    let dropped_full = next()?;
    let dropped_receive_buffer = next()?;
    let last_id = next()?;
    Some((
        number,
        QueueStatistics {
            owner,
            waiting,
            copy_range,
            dropped_full,
            dropped_receive_buffer,
            last_id,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_those_of_the_kernel() {
        let line = "   40  23948     5 2   128     6     7       12  1";
        let expected = QueueStatistics {
            owner: 23_948,
            waiting: 5,
            copy_range: 128,
            dropped_full: 6,
            dropped_receive_buffer: 7,
            last_id: 12,
        };
        assert_eq!(parse_line(line), Some((40, expected)));
    }

    #[test]
    fn a_line_that_is_short_or_not_numeric_is_no_queue() {
        for line in ["", "40", "40 1 2 2 128 6 7", "x 1 2 2 128 6 7 12 1", "70000 1 2 2 1 1 1 1 1"]
        {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }
}
