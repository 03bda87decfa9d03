//! Namespaces, the lab and the run's processes, for real: as an ordinary user and as root.

#[path = "support/reexec.rs"]
mod support;

use std::error::Error;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use punctual_linux::fault::Faults;
use punctual_linux::lab::{Lab, LabConfig, LabError};
use punctual_linux::namespace::{Entered, Network, Refusal, user};
use punctual_linux::probe::{Lack, Probe};
use punctual_linux::process::{
    Event, Exit, Identity, Plan, Processes, SignalFd, Terminal, Who, init, port_listening,
};
use punctual_linux::rtnetlink::Socket;
use rustix::io::Errno;
use support::{Test, TestResult};

fn main() -> ExitCode {
    if let Some(code) = init::dispatch() {
        return code;
    }
    let mut arguments = std::env::args().skip(1);
    if let Some(role) =
        arguments.next().and_then(|word| word.strip_prefix("role=").map(str::to_owned))
    {
        return match role_of_a_command(&role, &arguments.collect::<Vec<_>>()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{role}: {error}");
                let refused = error.is::<Lack>() || error.is::<Refusal>();
                if refused { ExitCode::from(REFUSED) } else { ExitCode::FAILURE }
            }
        };
    }
    support::run(TESTS, what_is_missing)
}

const TESTS: &[Test] = &[
    ("the_probe_finds_everything", the_probe_finds_everything),
    ("udp_crosses_the_lab_both_ways", udp_crosses_the_lab_both_ways),
    ("the_first_packet_of_every_lab_crosses", the_first_packet_of_every_lab_crosses),
    ("the_gate_lowers_the_time_to_live_by_one", the_gate_lowers_the_time_to_live_by_one),
    ("neighbours_are_permanent_on_both_ends", neighbours_are_permanent_on_both_ends),
    ("devices_count_what_crossed", devices_count_what_crossed),
    ("the_host_keeps_its_devices_and_routes", the_host_keeps_its_devices_and_routes),
    ("two_labs_stand_side_by_side", two_labs_stand_side_by_side),
    ("an_unknown_congestion_control_is_named", an_unknown_congestion_control_is_named),
    (
        "every_congestion_control_of_the_kernel_can_be_chosen",
        every_congestion_control_of_the_kernel_can_be_chosen,
    ),
    ("a_listener_is_seen_on_its_own_side_only", a_listener_is_seen_on_its_own_side_only),
    ("the_command_is_the_caller_below_an_init", the_command_is_the_caller_below_an_init),
    ("under_sudo_the_command_is_the_account", under_sudo_the_command_is_the_account),
    ("exit_status_and_signal_come_through", exit_status_and_signal_come_through),
    (
        "the_command_has_no_broken_pipe_signal_ignored",
        the_command_has_no_broken_pipe_signal_ignored,
    ),
    ("what_cannot_be_executed_is_reported", what_cannot_be_executed_is_reported),
    ("arguments_and_environment_may_hold_any_bytes", arguments_and_environment_may_hold_any_bytes),
    ("signals_reach_command_and_peer", signals_reach_command_and_peer),
    ("the_command_reaches_the_peer", the_command_reaches_the_peer),
    ("a_lab_stands_within_a_lab", a_lab_stands_within_a_lab),
    ("nothing_survives_a_kill_of_the_engine", nothing_survives_a_kill_of_the_engine),
    ("kill_all_leaves_nothing", kill_all_leaves_nothing),
    ("the_terminals_interrupt_reaches_both", the_terminals_interrupt_reaches_both),
    ("the_terminal_is_taken_back_from_a_shell", the_terminal_is_taken_back_from_a_shell),
    (
        "a_step_that_fails_before_the_command_is_named",
        a_step_that_fails_before_the_command_is_named,
    ),
    ("a_signal_of_a_process_is_no_terminals", a_signal_of_a_process_is_no_terminals),
];

/// The exit status of the probing role that means: the kernel refused.
const REFUSED: u8 = 77;

/// Tried in a child, because the namespaces of this process must stay as they are.
fn what_is_missing() -> Option<String> {
    let output = Command::new("/proc/self/exe").arg("role=probe").output();
    match output {
        // Anything but a refusal by the kernel is for the tests to fail of.
        Ok(output) if output.status.code() == Some(i32::from(REFUSED)) => {
            Some(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
        _ => None,
    }
}

fn the_probe_finds_everything() -> TestResult {
    enter()?;
    let probe = Probe::run(&Faults::default())?;
    check(probe.ipv6 == Lab::build(&LabConfig::default())?.addresses().peer6.is_some(), "IPv6")
}

fn udp_crosses_the_lab_both_ways() -> TestResult {
    enter()?;
    cross(&Lab::build(&LabConfig::default())?)
}

/// A queue that is not in place yet loses it, as it did in 3 labs of 100.
fn the_first_packet_of_every_lab_crosses() -> TestResult {
    enter()?;
    (0..50).try_for_each(|_| cross(&Lab::build(&LabConfig::default())?))
}

fn the_gate_lowers_the_time_to_live_by_one() -> TestResult {
    enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let peer = udp(lab.outside(), lab.addresses().peer4.into())?;
    let command = udp(lab.inside(), lab.addresses().inside4.into())?;
    // Packets keep their order, so if the first survived, the second would not be read first.
    for (ttl, text) in [(1, "dies"), (2, "lives")] {
        command.set_ttl(ttl)?;
        command.send_to(text.as_bytes(), peer.local_addr()?)?;
    }
    let mut buffer = [0; 16];
    let (length, _) = peer.recv_from(&mut buffer)?;
    check(&buffer[..length] == b"lives", "a packet with TTL 1 crossed the gate")
}

fn neighbours_are_permanent_on_both_ends() -> TestResult {
    enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let at = lab.addresses();
    let neighbours = Socket::open(lab.gate())?.permanent_neighbours()?;
    let expected = [
        Some(at.inside4.into()),
        at.inside6.map(Into::into),
        Some(at.peer4.into()),
        at.peer6.map(Into::into),
    ];
    for address in expected.into_iter().flatten() {
        check(neighbours.contains(&address), &format!("the gate has to ask for {address}"))?;
    }
    for end in [lab.inside(), lab.outside()] {
        let mut socket = Socket::open(end)?;
        let families = if at.peer6.is_some() { 2 } else { 1 };
        check(socket.permanent_neighbours()?.len() == families, "an end has to ask for the gate")?;
        let defaults = socket.route_destinations()?.iter().filter(|r| r.length == 0).count();
        check(defaults >= families, "an end has no default route")?;
    }
    Ok(())
}

fn devices_count_what_crossed() -> TestResult {
    enter()?;
    let lab = Lab::build(&LabConfig { mtu: 1400, ..LabConfig::default() })?;
    let received = || -> Result<u64, Box<dyn Error>> {
        let all = lab.device_statistics()?;
        let names: Vec<_> =
            all.iter().flat_map(|n| n.links.iter().map(|l| l.name.as_str())).collect();
        check(names == ["link0", "gate-in", "gate-out", "peer0"], &format!("{names:?}"))?;
        Ok(all[2].links[0].rx_bytes)
    };
    let before = received()?;
    let peer = udp(lab.outside(), lab.addresses().peer4.into())?;
    let command = udp(lab.inside(), lab.addresses().inside4.into())?;
    command.send_to(&[7; 1000], peer.local_addr()?)?;
    peer.recv_from(&mut [0; 2000])?;
    check(received()? >= before + 1000 + 28 + 14, "the peer's device did not count the datagram")?;
    // More than the MTU: cut into fragments, and put together again.
    command.send_to(&[7; 2000], peer.local_addr()?)?;
    check(peer.recv_from(&mut [0; 3000])?.0 == 2000, "a fragmented datagram was cut short")
}

fn the_host_keeps_its_devices_and_routes() -> TestResult {
    enter()?;
    let look = || -> Result<_, Box<dyn Error>> {
        let mut socket = Socket::open_here()?;
        let names: Vec<String> = socket.links()?.into_iter().map(|link| link.name).collect();
        Ok((names, socket.route_destinations()?))
    };
    let before = look()?;
    let lab = Lab::build(&LabConfig::default())?;
    check(look()? == before, "a lab shows on the host")?;
    drop(lab);
    check(look()? == before, "a lab left something on the host")
}

fn two_labs_stand_side_by_side() -> TestResult {
    enter()?;
    let labs = [Lab::build(&LabConfig::default())?, Lab::build(&LabConfig::default())?];
    check(!labs[0].inside().is(labs[1].inside()), "two labs share a namespace")?;
    labs.iter().try_for_each(cross)
}

fn an_unknown_congestion_control_is_named() -> TestResult {
    enter()?;
    let build = |name: &str| {
        Lab::build(&LabConfig { congestion_control: Some(name.to_owned()), ..LabConfig::default() })
    };
    let lab = build("reno")?;
    let read = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    check(lab.outside().within(read)??.trim() == "reno", "reno is not in force")?;
    match build("nonsense") {
        Err(error @ LabError::CongestionControl { .. }) => {
            let text = error.to_string();
            check(text.contains("nonsense") && text.contains("reno"), &text)
        }
        other => Err(format!("{other:?}").into()),
    }
}

/// Also those that only the host's own namespace may make its default, as cubic often is.
fn every_congestion_control_of_the_kernel_can_be_chosen() -> TestResult {
    enter()?;
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    for name in all.split_whitespace() {
        let config =
            LabConfig { congestion_control: Some(name.to_owned()), ..LabConfig::default() };
        let lab = Lab::build(&config)?;
        let at = lab.addresses();
        for peer in [Some(IpAddr::from(at.peer4)), at.peer6.map(IpAddr::from)].into_iter().flatten()
        {
            let listener = lab.outside().within(|| TcpListener::bind((peer, 0)))??;
            let target = listener.local_addr()?;
            let command = lab.inside().within(|| TcpStream::connect(target))??;
            let (accepted, _) = listener.accept()?;
            for stream in [&command, &accepted] {
                let used = rustix::net::sockopt::tcp_congestion(stream)?;
                check_eq(&used.as_str(), &name)?;
            }
        }
    }
    Ok(())
}

fn a_listener_is_seen_on_its_own_side_only() -> TestResult {
    enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    check(!port_listening(lab.outside(), 4242)?, "a listener before there is one")?;
    let listener = lab.outside().within(|| TcpListener::bind("0.0.0.0:4242"))??;
    check(port_listening(lab.outside(), 4242)?, "the listener is not seen")?;
    check(!port_listening(lab.inside(), 4242)?, "a listener of another namespace")?;
    drop(listener);
    let bound = udp(lab.outside(), lab.addresses().peer4.into())?;
    let port = bound.local_addr()?.port();
    check(port_listening(lab.outside(), port)?, "the bound UDP socket is not seen")
}

fn the_command_is_the_caller_below_an_init() -> TestResult {
    let open = open_descriptors()?;
    let entered = enter()?;
    let ids = [entered.caller.uid.to_string(), entered.caller.gid.to_string()];
    expect_success(&Identity::of(&entered), &["role=identity", &ids[0], &ids[1], &open])
}

fn under_sudo_the_command_is_the_account() -> TestResult {
    let open = open_descriptors()?;
    let entered = enter()?;
    if entered.in_user_namespace {
        // Only root comes by sudo; the nested namespace is the test before this one.
        return Ok(());
    }
    let identity = Identity::Account { uid: 65_533, gid: 65_532, groups: vec![65_532, 65_531] };
    expect_success(&identity, &["role=identity", "65533", "65532", &open])
}

fn exit_status_and_signal_come_through() -> TestResult {
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let run = |line| run_to_end(&lab, &plan(&Identity::of(&entered), &["/bin/sh", "-c", line]));
    check_eq(&run("exit 7")?, &Event::Ended(Who::Command, Exit::Status(7)))?;
    check_eq(&run("kill -9 $$")?, &Event::Ended(Who::Command, Exit::Signal(9)))?;
    // An orphan that ends first is reaped, and is not taken for the command.
    check_eq(&run("(true &); exit 3")?, &Event::Ended(Who::Command, Exit::Status(3)))
}

fn the_command_has_no_broken_pipe_signal_ignored() -> TestResult {
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    // SIGPIPE, 13, is the lowest bit of the fourth digit from the right; Rust programs ignore it.
    let pattern = "^SigIgn:.{13}[02468ace].{3}$";
    let command = ["grep", "-Eq", pattern, "/proc/self/status"];
    let ended = run_to_end(&lab, &plan(&Identity::of(&entered), &command))?;
    check_eq(&ended, &Event::Ended(Who::Command, Exit::Status(0)))
}

fn what_cannot_be_executed_is_reported() -> TestResult {
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let run = |program| run_to_end(&lab, &plan(&Identity::of(&entered), &[program]));
    check_eq(&run("/no/such/program")?, &Event::NotExecuted(Who::Command, Errno::NOENT))?;
    check_eq(&run("/etc/passwd")?, &Event::NotExecuted(Who::Command, Errno::ACCESS))
}

fn arguments_and_environment_may_hold_any_bytes() -> TestResult {
    use std::os::unix::ffi::OsStringExt;
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let odd = OsString::from_vec(b"\xff\n \xfe'\"$".to_vec());
    let mut plan = plan(
        &Identity::of(&entered),
        &["/bin/sh", "-c", "test \"$1\" = \"$ODD\" && test ${#1} -gt 5", "sh"],
    );
    plan.command.push(odd.clone());
    plan.environment.push(("ODD".into(), odd));
    check_eq(&run_to_end(&lab, &plan)?, &Event::Ended(Who::Command, Exit::Status(0)))
}

fn signals_reach_command_and_peer() -> TestResult {
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let mut plan = plan(&Identity::of(&entered), &["sleep", "1000"]);
    plan.peer = Some("sleep 1000 & wait".into());
    let mut processes = Processes::start(&plan, &lab)?;
    processes.start_peer()?;
    processes.start_command()?;
    until(&mut processes, &Event::Started(Who::Peer))?;
    until(&mut processes, &Event::Started(Who::Command))?;
    processes.signal_command(2)?;
    until(&mut processes, &Event::Ended(Who::Command, Exit::Signal(2)))?;
    processes.terminate_peer()?;
    until(&mut processes, &Event::Ended(Who::Peer, Exit::Signal(15)))?;
    check(processes.next_event()?.is_none(), "an event too many")?;
    Ok(processes.kill_all()?)
}

fn the_command_reaches_the_peer() -> TestResult {
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let listener = lab.outside().within(|| TcpListener::bind("0.0.0.0:0"))??;
    let peer = SocketAddr::new(lab.addresses().peer4.into(), listener.local_addr()?.port());
    let mut plan = plan(&Identity::of(&entered), &["/proc/self/exe", "role=connect"]);
    plan.command[0] = std::env::current_exe()?.into();
    plan.environment.push(("PUNCTUAL_PEER".into(), peer.to_string().into()));
    let mut processes = Processes::start(&plan, &lab)?;
    processes.start_command()?;
    let (mut stream, from) = listener.accept()?;
    check_eq(&from.ip(), &IpAddr::from(lab.addresses().inside4))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    check_eq(&text.as_str(), &"hello")?;
    until(&mut processes, &Event::Ended(Who::Command, Exit::Status(0)))
}

fn a_lab_stands_within_a_lab() -> TestResult {
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let mut plan = plan(&Identity::of(&entered), &["", "role=nested"]);
    plan.command[0] = std::env::current_exe()?.into();
    plan.environment.push(("PUNCTUAL_PEER".into(), lab.addresses().peer4.to_string().into()));
    check_eq(&run_to_end(&lab, &plan)?, &Event::Ended(Who::Command, Exit::Status(0)))
}

/// A descendant in a session of its own that ignores SIGTERM holds the write end of a pipe: end
/// of file proves that it is dead.
fn nothing_survives_a_kill_of_the_engine() -> TestResult {
    let mut engine = Command::new("/proc/self/exe")
        .arg("role=engine")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = BufReader::new(engine.stdout.take().ok_or("no pipe")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    check_eq(&line.as_str(), &"up\n")?;
    engine.kill()?;
    engine.wait()?;
    check_eq(&output.read_to_string(&mut line)?, &0)
}

fn kill_all_leaves_nothing() -> TestResult {
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let (reader, writer) = rustix::pipe::pipe()?;
    let mut plan = plan(&Identity::of(&entered), &["", "role=daemon"]);
    plan.command[0] = std::env::current_exe()?.into();
    // The command writes to this pipe, which none but it and its descendants hold then.
    let saved = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(&writer)?;
    drop(writer);
    let started = Processes::start(&plan, &lab);
    rustix::stdio::dup2_stdout(&saved)?;
    let processes = started?;
    processes.start_command()?;
    let mut buffer = [0; 16];
    check_eq(&rustix::io::read(&reader, &mut buffer)?, &3)?;
    processes.kill_all()?;
    check_eq(&rustix::io::read(&reader, &mut buffer)?, &0)
}

fn a_signal_of_a_process_is_no_terminals() -> TestResult {
    let signals = SignalFd::new()?;
    check(signals.next()?.is_none(), "a signal before there is one")?;
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)?;
    let received = signals.next()?.ok_or("the signal was not read")?;
    check(received.signal == 15 && !received.from_terminal, &format!("{received:?}"))
}

fn the_terminals_interrupt_reaches_both() -> TestResult {
    on_a_terminal("role=interrupted", b"\x03")
}

fn the_terminal_is_taken_back_from_a_shell() -> TestResult {
    on_a_terminal("role=shell", b"")
}

/// Without a user namespace left to have, the command's own cannot be made.
fn a_step_that_fails_before_the_command_is_named() -> TestResult {
    let entered = enter()?;
    if !entered.in_user_namespace {
        // Root's limit is the whole machine's, and not ours to change.
        return Ok(());
    }
    std::fs::write("/proc/sys/user/max_user_namespaces", "0")?;
    let lab = Lab::build(&LabConfig::default())?;
    let step = "take the caller's identity".to_owned();
    let expected = Event::NotPrepared(Who::Command, Errno::NOSPC, step);
    check_eq(&run_to_end(&lab, &plan(&Identity::of(&entered), &["true"]))?, &expected)
}

/// Runs `role` as the leader of a session on a new terminal, and types `keys` when it says that it
/// is ready.
fn on_a_terminal(role: &str, keys: &[u8]) -> TestResult {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let terminal = rustix::pty::openpt(flags)?;
    rustix::io::fcntl_setfd(&terminal, rustix::io::FdFlags::CLOEXEC)?;
    rustix::pty::grantpt(&terminal)?;
    rustix::pty::unlockpt(&terminal)?;
    let name = rustix::pty::ptsname(&terminal, Vec::new())?.into_string()?;
    let mut child = Command::new("/proc/self/exe")
        .args([role, &name])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // Held open until the child has done the same, or reading would fail at once.
    let held = std::fs::OpenOptions::new().read(true).open(&name)?;
    let (mut shown, mut buffer, mut held) = (Vec::new(), [0; 256], Some(held));
    // A terminal that nobody holds any more answers with an error.
    while let Ok(length) = rustix::io::read(&terminal, &mut buffer) {
        shown.extend_from_slice(&buffer[..length]);
        if held.is_some() && shown.windows(5).any(|word| word == b"ready") {
            rustix::io::write(&terminal, keys)?;
            held = None;
        }
    }
    check(child.wait()?.success(), &String::from_utf8_lossy(&shown))
}

fn interrupted() -> TestResult {
    let signals = SignalFd::new()?;
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let mut processes = Processes::start(&plan(&Identity::of(&entered), &["cat"]), &lab)?;
    processes.start_command()?;
    until(&mut processes, &Event::Started(Who::Command))?;
    println!("ready");
    until(&mut processes, &Event::Ended(Who::Command, Exit::Signal(2)))?;
    let received = signals.next()?.ok_or("the interrupt did not reach the engine")?;
    check(received.signal == 2 && received.from_terminal, &format!("{received:?}"))
}

fn shell() -> TestResult {
    println!("ready");
    let entered = enter()?;
    let terminal = Terminal::current().ok_or("no terminal")?;
    let lab = Lab::build(&LabConfig::default())?;
    let foreground = || rustix::termios::tcgetpgrp(std::io::stdin());
    let echoes = || {
        let modes = rustix::termios::tcgetattr(std::io::stdin());
        modes.map(|m| m.local_modes.contains(rustix::termios::LocalModes::ECHO))
    };
    // With job control (-m) a shell makes itself a process group, and that the foreground.
    let line = "set -m; stty -echo; kill -9 $$";
    let plan = plan(&Identity::of(&entered), &["sh", "-c", line]);
    check_eq(&run_to_end(&lab, &plan)?, &Event::Ended(Who::Command, Exit::Signal(9)))?;
    check(foreground() != Ok(rustix::process::getpgrp()) && !echoes()?, "the shell took nothing")?;
    terminal.take_back(true)?;
    check(foreground()? == rustix::process::getpgrp() && echoes()?, "it was not taken back")
}

/// Becomes the leader of a session whose terminal is `name`, with it as standard streams.
fn take_terminal(name: &str) -> TestResult {
    rustix::process::setsid()?;
    let terminal = std::fs::OpenOptions::new().read(true).write(true).open(name)?;
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stdout(&terminal)?;
    Ok(rustix::stdio::dup2_stderr(&terminal)?)
}

fn role_of_a_command(role: &str, arguments: &[String]) -> TestResult {
    match role {
        "probe" => {
            enter()?;
            Probe::run(&Faults::default())?;
            Ok(())
        }
        "identity" => identity(arguments),
        "interrupted" => take_terminal(&arguments[0]).and_then(|()| interrupted()),
        "shell" => take_terminal(&arguments[0]).and_then(|()| shell()),
        "connect" => {
            use std::io::Write;
            Ok(TcpStream::connect(std::env::var("PUNCTUAL_PEER")?)?.write_all(b"hello")?)
        }
        "nested" => nested(),
        "engine" => {
            let entered = enter()?;
            let lab = Lab::build(&LabConfig::default())?;
            let mut plan = plan(&Identity::of(&entered), &["", "role=daemon"]);
            plan.command[0] = std::env::current_exe()?.into();
            run_to_end(&lab, &plan).map(|_| ())
        }
        "daemon" => {
            let exe = std::env::current_exe()?;
            Ok(Command::new(exe).arg("role=stubborn").spawn()?.wait().map(|_| ())?)
        }
        "stubborn" => {
            rustix::process::setsid()?;
            let line = "trap '' TERM HUP INT; echo up; exec sleep 1000";
            Err(Command::new("/bin/sh").args(["-c", line]).exec().into())
        }
        _ => Err("no such role".into()),
    }
}

/// What the command sees of itself.
fn identity(expected: &[String]) -> TestResult {
    let ids = [rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()];
    check_eq(&ids.map(|id| id.to_string())[..], &expected[..2])?;
    let init = std::fs::read("/proc/1/cmdline")?;
    check(init.split(|b| *b == 0).any(|word| word == b"__init"), "process 1 is no init of ours")?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let none = if ids[0] == 0 {
        &["CapInh", "CapAmb"][..]
    } else {
        &["CapInh", "CapAmb", "CapEff", "CapPrm"]
    };
    for set in none {
        let line = status.lines().find(|line| line.starts_with(set)).ok_or("no such set")?;
        check(line.ends_with("\t0000000000000000"), line)?;
    }
    check(status.lines().any(|l| l == "SigBlk:\t0000000000000000"), "signals are blocked")?;
    let mut devices: Vec<_> = std::fs::read_dir("/sys/class/net")?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    devices.sort();
    check_eq(&devices, &vec!["link0".to_owned(), "lo".to_owned()])?;
    check_eq(&open_descriptors()?.as_str(), &expected[2].as_str())?;
    rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        Some(rustix::net::ipproto::ICMP),
    )?;
    Ok(())
}

fn nested() -> TestResult {
    let open = open_descriptors()?;
    let entered = enter()?;
    let lab = Lab::build(&LabConfig::default())?;
    let outer_peer: std::net::Ipv4Addr = std::env::var("PUNCTUAL_PEER")?.parse()?;
    check(lab.addresses().peer4 != outer_peer, "the inner lab hides the outer peer")?;
    cross(&lab)?;
    let ids = [entered.caller.uid.to_string(), entered.caller.gid.to_string()];
    let mut plan = plan(&Identity::of(&entered), &["", "role=identity", &ids[0], &ids[1], &open]);
    plan.command[0] = std::env::current_exe()?.into();
    check_eq(&run_to_end(&lab, &plan)?, &Event::Ended(Who::Command, Exit::Status(0)))
}

fn enter() -> Result<Entered, Box<dyn Error>> {
    Ok(user::enter(&Faults::default())?)
}

/// How many descriptors are open. A process that has opened none itself was given these, and so
/// is the command, and no others.
fn open_descriptors() -> Result<String, Box<dyn Error>> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count().to_string())
}

/// A datagram there and one back, of each family.
fn cross(lab: &Lab) -> TestResult {
    let at = lab.addresses();
    let six = at.inside6.zip(at.peer6).map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    for (from, to) in [Some((at.inside4.into(), at.peer4.into())), six].into_iter().flatten() {
        let (command, peer) = (udp(lab.inside(), from)?, udp(lab.outside(), to)?);
        let mut buffer = [0; 16];
        command.send_to(b"ping", peer.local_addr()?)?;
        let (length, sender) = peer.recv_from(&mut buffer)?;
        check_eq(&(&buffer[..length], sender), &(&b"ping"[..], command.local_addr()?))?;
        peer.send_to(b"pong", sender)?;
        let (length, sender) = command.recv_from(&mut buffer)?;
        check_eq(&(&buffer[..length], sender), &(&b"pong"[..], peer.local_addr()?))?;
    }
    Ok(())
}

/// Reads end after ten seconds, so a lost packet fails a test instead of stopping it.
fn udp(network: &Network, address: IpAddr) -> Result<UdpSocket, Box<dyn Error>> {
    let socket = network.within(|| UdpSocket::bind((address, 0)))??;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(socket)
}

fn plan(identity: &Identity, command: &[&str]) -> Plan {
    Plan {
        command: command.iter().map(OsString::from).collect(),
        peer: None,
        environment: Vec::new(),
        identity: identity.clone(),
    }
}

fn expect_success(identity: &Identity, arguments: &[&str]) -> TestResult {
    let lab = Lab::build(&LabConfig::default())?;
    let mut plan = plan(identity, arguments);
    plan.command.insert(0, std::env::current_exe()?.into());
    check_eq(&run_to_end(&lab, &plan)?, &Event::Ended(Who::Command, Exit::Status(0)))
}

/// Runs the command alone; the event that ended it. A note on the way fails the test.
fn run_to_end(lab: &Lab, plan: &Plan) -> Result<Event, Box<dyn Error>> {
    let mut processes = Processes::start(plan, lab)?;
    processes.start_command()?;
    loop {
        match processes.wait()?.ok_or("the init is gone")? {
            Event::Ready | Event::Started(_) => {}
            Event::Note(note) => return Err(note.into()),
            event => return Ok(event),
        }
    }
}

fn until(processes: &mut Processes, wanted: &Event) -> TestResult {
    loop {
        let event = processes.wait()?.ok_or("the init is gone")?;
        if event == *wanted {
            return Ok(());
        }
        if !matches!(event, Event::Ready | Event::Started(_)) {
            return Err(format!("{event:?} instead of {wanted:?}").into());
        }
    }
}

fn check(holds: bool, otherwise: &str) -> TestResult {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

fn check_eq<T: PartialEq + std::fmt::Debug + ?Sized>(found: &T, expected: &T) -> TestResult {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{found:?} instead of {expected:?}").into())
    }
}
