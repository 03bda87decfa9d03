use std::thread;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: TrafficCommand,
}

fn parse(line: &str) -> Result<TrafficCommand, String> {
    let words = std::iter::once("traffic").chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.command).map_err(|error| error.to_string())
}

#[test]
fn values_are_written_as_elsewhere_and_the_pace_is_chosen_once() {
    let line = "udp-send 127.0.0.1:9 --rate 20mbit --duration 5s --size 1000 --gso-segments 4";
    let TrafficCommand::UdpSend(options) = parse(line).unwrap() else { panic!("{line}") };
    let rate = NonZeroU64::new(20_000_000).unwrap();
    assert_eq!(options.pace.pace().unwrap(), Pace::Bits(rate));
    assert_eq!(options.duration, Some(Duration::from_secs(5)));
    for wrong in [
        "udp-send 127.0.0.1:9",
        "udp-send 127.0.0.1:9 --rate 1mbit --packets 5",
        "udp-send 127.0.0.1:9 --packets 0",
        "udp-send localhost --unpaced",
        "udp-receive 127.0.0.1:9 --duration 5",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_rate_of_zero_is_refused_before_anything_is_sent() {
    let line = "udp-send 127.0.0.1:9 --rate 0 --count 1";
    let error = run(&parse(line).unwrap()).unwrap_err().to_string();
    assert!(error.contains("expected 1 bit/s or more"), "{error}");
}

#[test]
fn sender_and_receiver_agree_in_their_json() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let socket = UdpReceiver::bind(address.parse().unwrap()).unwrap();
        let target = socket.local_addr().unwrap();
        let line = format!("udp-receive {target} --count 50 --duration 20s --link-rate 1mbit");
        let TrafficCommand::UdpReceive(options) = parse(&line).unwrap() else { panic!("{line}") };
        let receiving = thread::spawn(move || options.run(socket).unwrap());
        let line = format!("udp-send {target} --packets 1000 --count 50 --size 100 --run 3");
        let TrafficCommand::UdpSend(options) = parse(&line).unwrap() else { panic!("{line}") };
        let sent = options.run().unwrap();
        let received = receiving.join().unwrap();
        assert_eq!((&sent["sent"], &sent["payload_bytes"]), (&json!(50), &json!(5_000)));
        assert_eq!(received["received"], sent["sent"]);
        assert_eq!(received["payload_bytes"], sent["payload_bytes"]);
        assert_eq!((&received["run"], &received["missing"]), (&json!(3), &json!(0)));
        assert_eq!(received["gaps"]["n"], 49);
        assert_eq!(received["spacing"]["error"]["n"], 49);
        assert!(received["frame_bps"].as_u64() > received["ip_bps"].as_u64(), "{received}");
        assert!(received["one_way_delay"]["p50_ns"].as_i64() > Some(0), "{received}");
    }
}

#[test]
fn nothing_received_is_null_and_not_zero() {
    let line = "udp-receive 127.0.0.1:0 --duration 1ms";
    let TrafficCommand::UdpReceive(options) = parse(line).unwrap() else { panic!("{line}") };
    let result = options.run(UdpReceiver::bind(options.address).unwrap()).unwrap();
    assert_eq!(result["received"], 0);
    for key in ["first_ns", "last_ns", "ip_bps", "frame_bps", "spacing", "run"] {
        assert!(result[key].is_null(), "{key}: {result}");
    }
}

#[test]
fn a_bulk_transfer_has_the_same_bytes_at_both_ends() {
    let listener = TcpReceiver::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let target = listener.local_addr().unwrap();
    let receive = format!("tcp-receive {target} --patience 20s --duration 20s");
    let TrafficCommand::TcpReceive(options) = parse(&receive).unwrap() else { panic!("{receive}") };
    let receiving = thread::spawn(move || options.run(listener).unwrap());
    let line = format!("tcp-send {target} --duration 50ms");
    let TrafficCommand::TcpSend(options) = parse(&line).unwrap() else { panic!("{line}") };
    let (sent, received) = (options.run().unwrap(), receiving.join().unwrap());
    assert_eq!(sent["bytes"], received["bytes"]);
    assert!(received["bps"].as_u64() > Some(0) && received["finished"] == true, "{received}");
}

#[test]
fn round_trips_are_told_with_their_median() {
    let server = EchoServer::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let target = server.local_addr().unwrap();
    let echo = format!("echo {target} --duration 200ms");
    let TrafficCommand::Echo(options) = parse(&echo).unwrap() else { panic!("{echo}") };
    let echoing = thread::spawn(move || options.run(server).unwrap());
    let rtt = format!("rtt {target} --count 10 --interval 1ms");
    let TrafficCommand::Rtt(options) = parse(&rtt).unwrap() else { panic!("{rtt}") };
    let result = options.run().unwrap();
    assert_eq!((&result["answered"], &result["unanswered"]), (&json!(10), &json!(0)));
    assert!(result["round_trip"]["p50_ns"].as_i64() > Some(1_000), "{result}");
    assert_eq!(echoing.join().unwrap(), json!({ "received": 10, "sent": 10 }));
}
