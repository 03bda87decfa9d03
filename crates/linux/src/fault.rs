//! Faults injected for tests by the environment variable `PUNCTUAL_FAULT`.
//!
//! A comma list of `key=value`: `refuse=WHAT` (one of [`Refuse`]; may repeat), `shift=NS`
//! (departures are shifted by so many nanoseconds behind the report's back), and
//! `clock-step=SECONDS@AT` (the real-time clock, where it is read, steps by `SECONDS`, signed, once
//! `AT` seconds have passed; may repeat). The real machine is never touched.

use std::ffi::OsStr;

/// What is to be injected; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// What the kernel is to refuse.
    pub refuse: Vec<Refuse>,
    /// Nanoseconds by which departures are delayed without being accounted for.
    pub shift_ns: Option<u64>,
    /// Steps of the real-time clock, in the order given.
    pub clock_steps: Vec<ClockStep>,
}

/// A step of the real-time clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// Seconds added to the clock; negative steps it back.
    pub seconds: i64,
    /// When, in seconds since the start of the run.
    pub at_seconds: u64,
}

/// A refusal by the kernel that can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuse {
    /// `userns-apparmor`: AppArmor leaves new user namespaces without privileges.
    UsernsApparmor,
    /// `userns-seccomp`: a seccomp filter, such as Docker's, denies the system call.
    UsernsSeccomp,
    /// `userns-limit`: `user.max_user_namespaces` is used up.
    UsernsLimit,
    /// `userns-sysctl`: `kernel.unprivileged_userns_clone` is 0.
    UsernsSysctl,
    /// `proc-missing`: `/proc` is not mounted.
    ProcMissing,
    /// `proc-sys-readonly`: `/proc/sys` is mounted read-only.
    ProcSysReadonly,
    /// `nfqueue-missing`: the kernel has no NFQUEUE.
    NfqueueMissing,
    /// `ce-mark-missing`: rules cannot write CE.
    CeMarkMissing,
    /// `shares-missing`: rules cannot divide flows among queues.
    SharesMissing,
}

/// `PUNCTUAL_FAULT` could not be understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("PUNCTUAL_FAULT: `{word}` is not understood, expected {expected}")]
pub struct FaultError {
    word: String,
    expected: &'static str,
}

impl Faults {
    /// Reads `PUNCTUAL_FAULT`; nothing is injected where it is not set.
    pub fn from_environment() -> Result<Self, FaultError> {
        std::env::var_os(VARIABLE).map_or_else(|| Ok(Self::default()), |value| Self::parse(&value))
    }

    /// Parses the value of `PUNCTUAL_FAULT`.
    pub fn parse(value: &OsStr) -> Result<Self, FaultError> {
        let mut faults = Self::default();
        for word in value.to_string_lossy().split(',').filter(|word| !word.is_empty()) {
            faults.add(word).map_err(|expected| FaultError { word: word.to_owned(), expected })?;
        }
        Ok(faults)
    }

    /// Whether `what` is to be refused.
    pub fn refuses(&self, what: Refuse) -> bool {
        self.refuse.contains(&what)
    }

    fn add(&mut self, word: &str) -> Result<(), &'static str> {
        match word.split_once('=').ok_or(KEYS)? {
            ("refuse", name) => self.refuse.push(Refuse::parse(name).ok_or(REFUSALS)?),
            ("shift", ns) => self.shift_ns = Some(ns.parse().map_err(|_| "shift=NANOSECONDS")?),
            ("clock-step", step) => self.clock_steps.push(ClockStep::parse(step).ok_or(STEP)?),
            _ => return Err(KEYS),
        }
        Ok(())
    }
}

impl ClockStep {
    fn parse(text: &str) -> Option<Self> {
        let (seconds, at) = text.split_once('@')?;
        Some(Self { seconds: seconds.parse().ok()?, at_seconds: at.parse().ok()? })
    }
}

impl Refuse {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "userns-apparmor" => Self::UsernsApparmor,
            "userns-seccomp" => Self::UsernsSeccomp,
            "userns-limit" => Self::UsernsLimit,
            "userns-sysctl" => Self::UsernsSysctl,
            "proc-missing" => Self::ProcMissing,
            "proc-sys-readonly" => Self::ProcSysReadonly,
            "nfqueue-missing" => Self::NfqueueMissing,
            "ce-mark-missing" => Self::CeMarkMissing,
            "shares-missing" => Self::SharesMissing,
            _ => return None,
        })
    }
}

const VARIABLE: &str = "PUNCTUAL_FAULT";
const KEYS: &str = "refuse=, shift= or clock-step=";
const STEP: &str = "clock-step=SECONDS@AT_SECONDS";
const REFUSALS: &str = "refuse=userns-apparmor, userns-seccomp, userns-limit, userns-sysctl, \
                        proc-missing, proc-sys-readonly, nfqueue-missing, ce-mark-missing or \
                        shares-missing";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_and_lists_add_up() {
        let text = "refuse=userns-limit,refuse=proc-missing,shift=100000,clock-step=-3600@1,clock-step=3600@2";
        let faults = Faults::parse(OsStr::new(text)).unwrap();
        assert!(faults.refuses(Refuse::UsernsLimit) && faults.refuses(Refuse::ProcMissing));
        assert!(!faults.refuses(Refuse::NfqueueMissing));
        assert_eq!(faults.shift_ns, Some(100_000));
        let steps = [(-3600, 1), (3600, 2)];
        assert_eq!(
            faults.clock_steps,
            steps.map(|(seconds, at_seconds)| ClockStep { seconds, at_seconds })
        );
    }

    #[test]
    fn a_word_that_is_not_understood_is_named() {
        for bad in ["sihft=1", "shift=", "shift=-1", "refuse=userns", "clock-step=5", "x"] {
            let error = Faults::parse(OsStr::new(bad)).unwrap_err();
            assert!(error.to_string().contains(bad), "{error}");
        }
    }

    #[test]
    fn an_empty_variable_injects_nothing() {
        assert_eq!(Faults::parse(OsStr::new("")), Ok(Faults::default()));
    }
}
