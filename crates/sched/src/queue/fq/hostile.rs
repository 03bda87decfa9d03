//! What nobody should send.

use super::tests::{Device, FLOWS, at, packet, rate};
use super::*;
use crate::packet::TransmitTime;

#[test]
fn ten_million_flows_a_minute_that_come_once_do_not_fill_the_memory() {
    // A sixth of the minute is enough: flows are forgotten after three seconds.
    let all = "fq.orphan_mask=0xffffffff limit=1000p";
    let mut device: Device = Device::new(&format!("{FLOWS} {all}"));
    let mut most = 0;
    for flow in 0..1_666_667 {
        device.now += 6_000;
        device.enqueue(Packet { socket: false, ..packet(0, flow) });
        device.dequeue();
        if flow % 1_024 == 0 {
            most = most.max(device.statistics().flows);
        }
    }
    // 500,000 flows come in three seconds.
    assert!((500_000..670_000).contains(&most), "{most}");
    let (packets, flows) = device.fq.memory();
    assert!(packets < 1 << 20 && flows < 70 << 20, "{packets} {flows}");
    let FqStatistics { flows, gc_flows, .. } = device.statistics();
    assert_eq!(flows + gc_flows, 1_666_667);
}

#[test]
fn paced_flows_that_come_once_are_forgotten_too() {
    let mut device: Device = Device::new("fq.maxrate=1mbit fq.buckets=16");
    for flow in 0..200_000 {
        device.enqueue(packet(0, flow));
        device.run(device.now + 100_000);
    }
    assert!(device.statistics().flows < 41_000, "{}", device.statistics().flows);
}

#[test]
fn packets_of_a_byte_and_bursts_of_64_kb_share_by_bytes() {
    let mut device: Device = Device::new(&format!("{FLOWS} fq.flow_limit=1000000p limit=1000000p"));
    for handle in 0..100 {
        device.enqueue_sized(packet(handle, 1), 65_536);
    }
    for handle in 1_000..400_000 {
        device.enqueue_sized(packet(handle, 2), 1);
    }
    let (mut large, mut small) = (0_u64, 0_u64);
    while large < 5 * 65_536 {
        match device.dequeue().unwrap() {
            0..1_000 => large += 65_536,
            _ => small += 1,
        }
        assert!(small.abs_diff(large) < 65_536 + 2 * 15_140, "{large} and {small}");
    }
}

#[test]
fn a_flow_that_always_exceeds_its_credit_starves_nobody_and_costs_no_turns() {
    let mut device: Device = Device::new(&format!("{FLOWS} fq.quantum=1 fq.initial_quantum=1"));
    let huge = 1_u64 << 33;
    for handle in 0..20 {
        device.enqueue_sized(packet(handle, 1), huge);
        device.enqueue_sized(packet(100 + handle, 2), 1_000);
        device.enqueue_sized(Packet { priority: 1, ..packet(200 + handle, 3) }, huge);
    }
    device.run(0);
    let handles = device.handles();
    assert_eq!(handles.len(), 60);
    let of_small = |handle: &&u64| (100..200).contains(*handle);
    // One huge packet of each band at most goes before, then one more in the whole.
    let before: Vec<_> = handles.iter().take(24).filter(of_small).collect();
    assert_eq!(before.len(), 20, "{handles:?}");
}

#[test]
fn an_endless_stream_of_high_priority_leaves_the_others_their_share() {
    let mut device: Device = Device::new(FLOWS);
    for handle in 0..50 {
        device.enqueue(Packet { priority: 1, ..packet(handle, 1) });
    }
    for handle in 1_000..2_000 {
        device.enqueue(Packet { priority: 6, ..packet(handle, 2) });
        device.dequeue();
    }
    let low = device.handles().iter().filter(|handle| **handle < 1_000).count();
    assert!(low >= 50, "{low}");
}

#[test]
fn time_that_jumps_by_hours_and_ends_wakes_everything() {
    let mut device: Device = Device::new("fq.horizon=4294s");
    let mut expected = 0;
    for jump in [0, 3_600_000_000_000, 86_400_000_000_000, u64::MAX / 3, u64::MAX / 3] {
        device.now += jump;
        for flow in 0..50 {
            let transmit = TransmitTime::new(at(device.now + u64::from(flow) * 80_000_000_000));
            device.enqueue(Packet { transmit, ..packet(expected, flow) });
            device.enqueue(Packet { pacing_rate: rate(1), ..packet(expected + 1, flow) });
            expected += 2;
        }
        while device.dequeue().is_some() {}
    }
    device.now = u64::MAX - 1;
    device.enqueue(Packet { transmit: TransmitTime::new(at(u64::MAX)), ..packet(expected, 77) });
    device.enqueue(Packet { pacing_rate: rate(1), ..packet(expected + 1, 78) });
    device.enqueue(Packet { pacing_rate: rate(1), ..packet(expected + 2, 78) });
    device.run(u64::MAX);
    assert_eq!(device.left.len() + device.dropped.len(), usize::try_from(expected).unwrap() + 3);
    assert_eq!(device.statistics().throttled_flows, 0);
}

#[test]
fn two_hundred_thousand_flows_due_at_one_instant_leave_then_in_order() {
    let mut device: Device = Device::new("limit=1000000p");
    for flow in 0..200_000 {
        let transmit = TransmitTime::new(at(1_000_000_000));
        device.enqueue(Packet { transmit, ..packet(flow.into(), flow) });
        device.dequeue();
    }
    device.run(2_000_000_000);
    assert_eq!(device.times(), vec![1_000_000_000; 200_000]);
    assert!(device.handles().is_sorted());
}
