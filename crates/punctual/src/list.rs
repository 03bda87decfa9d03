//! `punctual list`: the runs that are there.

use std::fs;

use clap::Args;
use punctual_linux::clock::monotonic;
use punctual_sched::{Duration, LinkConfig};
use serde_json::{Value, json};

use crate::control::{AskError, Client, RunPlace, runs};
use crate::failure::Failure;
use crate::output::print;
use crate::show::{heading, words};

/// `punctual list`
#[derive(Args, Debug)]
pub struct ListOptions {
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Prints every run with its pid, age, command and links. That there is none, and those of other
/// users, are told on standard error.
pub fn run(options: &ListOptions) -> Result<u8, Failure> {
    // All are asked before the first answer is waited for: one that is stopped delays the list once.
    let asked: Vec<_> = runs::all().into_iter().map(|run| (ask(&run), run)).collect();
    let told = match (asked.is_empty(), options.json) {
        (_, true) => None,
        (true, false) => Some(runs::none()),
        (false, false) => runs::of_others(),
    };
    let deadline = monotonic() + PATIENCE;
    let listed = asked.into_iter().map(|(client, run)| {
        let answer = client.and_then(|mut client| client.answer(deadline));
        Listed { run, answer }
    });
    let text = if options.json {
        let runs: Vec<_> = listed.map(|listed| listed.json()).collect();
        json!({ "runs": runs }).to_string() + "\n"
    } else {
        listed.map(|listed| listed.text()).collect()
    };
    print(text)?;
    if let Some(told) = told {
        crate::tell(told);
    }
    Ok(0)
}

fn ask(run: &RunPlace) -> Result<Client, AskError> {
    let mut client = Client::connect(&run.directory)?;
    client.send(&json!({ "show": {} }))?;
    Ok(client)
}

struct Listed {
    run: RunPlace,
    answer: Result<Value, AskError>,
}

impl Listed {
    fn text(&self) -> String {
        let answer = match &self.answer {
            Ok(answer) if answer["ok"] == true => answer,
            Ok(answer) => return format!("{}\n", self.run.declined(answer)),
            Err(error) => {
                let pid = self.pid().map_or_else(|| "?".to_owned(), |pid| pid.to_string());
                return format!("{}: pid {pid}: {error}\n", self.run.name);
            }
        };
        let links = ["up", "down"].map(|name| {
            format!("  {name:4} {}\n", chosen(&answer["directions"][name]["link"]).join(" "))
        });
        heading(&answer["run"]) + "\n" + &links.concat()
    }

    fn json(&self) -> Value {
        let RunPlace { name, directory } = &self.run;
        match &self.answer {
            Ok(answer) if answer["ok"] == true => {
                let mut run = answer["run"].clone();
                run["directory"] = json!(directory);
                let [up, down] = ["up", "down"].map(|way| &answer["directions"][way]["link"]);
                run["links"] = json!({ "up": up, "down": down });
                run["problem"] = Value::Null;
                run
            }
            Ok(answer) => {
                let problem = answer["error"]["problem"].clone();
                json!({ "name": name, "directory": directory, "pid": self.pid(), "problem": problem })
            }
            Err(error) => {
                let problem = error.to_string();
                json!({ "name": name, "directory": directory, "pid": self.pid(), "problem": problem })
            }
        }
    }

    /// As the run has written it, for one that does not answer.
    fn pid(&self) -> Option<u32> {
        fs::read_to_string(self.run.directory.join("lock")).ok()?.trim().parse().ok()
    }
}

/// What of a link is not as it is when nobody asks for anything.
fn chosen(link: &Value) -> Vec<String> {
    let defaults = LinkConfig::default().all_entries();
    let own = |name: &str, value: &str| match name {
        // What memory there is, and a queue's bound where nothing queues, nobody has asked for.
        "hold" => false,
        "limit" => value != "none",
        _ => !defaults.iter().any(|(known, default)| *known == name && default == value),
    };
    let entries = link.as_object().into_iter().flatten();
    let texts = entries.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    words(texts.filter(|(name, value)| own(name, value)))
}

/// For a run that is busy to answer.
const PATIENCE: Duration = Duration::from_secs(2);
