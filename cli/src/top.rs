//! `top`: a live screen of the longest queues, the longest holds and the busiest locks.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use lockson::{Listed, Locks, What};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use ratatui::{Frame, Terminal};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::args::{Sort, Top};
use crate::ls;
use crate::out::{brief, clean, Out};
use crate::{End, Failure, Outcome};

/// The size of a frame that is printed as text.
const WIDTH: u16 = 120;
const HEIGHT: u16 = 16;
/// Servers with more are not shown as a whole.
const MOST: usize = 10_000;

/// What is shown.
#[derive(Debug, Clone, Default)]
struct Screen {
    rows: Vec<Seen>,
    /// Why the last look failed.
    away: Option<String>,
    looks: u64,
    took: Duration,
    is_cut: bool,
}

/// A lock over several looks.
#[derive(Debug, Clone)]
struct Seen {
    found: Listed,
    /// Since when this one is known to hold it.
    since: Instant,
    /// How often another holder was seen: those between two looks are not.
    turns: u64,
}

pub async fn run(locks: &Locks, out: &Out, args: Top) -> Outcome {
    let is_live = std::io::stdout().is_terminal() && args.frames.is_none() && !out.json;
    if is_live {
        return live(locks, args).await;
    }
    let mut screen = Screen::default();
    for frame in 0..args.frames.unwrap_or(1).max(1) {
        if frame > 0 {
            sleep(args.interval).await;
        }
        look(locks, &args.pattern, &mut screen).await;
        if let (Some(why), 0) = (&screen.away, frame) {
            return Err(Failure::unreachable(why));
        }
        if out.json {
            for seen in &sorted(&screen, args.sort) {
                let mut value = crate::json::listed(&seen.found);
                value["held_for_ms"] = crate::json::millis(seen.since.elapsed()).into();
                value["turns"] = seen.turns.into();
                out.value(&value)?;
            }
            continue;
        }
        for line in as_text(&screen, args.sort)? {
            out.line(&line)?;
        }
    }
    Ok(End::Done)
}

/// One look at all of it. What was seen before stays where the servers are away.
async fn look(locks: &Locks, pattern: &str, screen: &mut Screen) {
    let began = Instant::now();
    let mut before: BTreeMap<String, Seen> =
        screen.rows.drain(..).map(|seen| (seen.found.name.clone(), seen)).collect();
    let (mut listing, mut all) = (locks.admin().list(pattern), BTreeMap::new());
    let result = loop {
        match listing.next().await {
            Ok(Some(page)) if all.len() < MOST => all.extend(page.into_iter().map(|one| (one.name.clone(), one))),
            Ok(Some(_)) => break Ok(true),
            Ok(None) => break Ok(false),
            Err(error) => break Err(error.to_string()),
        }
    };
    match result {
        Ok(is_cut) => {
            let seen = |found: Listed| match before.remove(&found.name) {
                Some(old) if holder(&old.found) == holder(&found) => Seen { found, ..old },
                Some(old) => Seen { found, since: began, turns: old.turns + 1 },
                None => Seen { found, since: began, turns: 0 },
            };
            screen.rows = all.into_values().map(seen).collect();
            (screen.away, screen.is_cut) = (None, is_cut);
        }
        Err(why) => {
            screen.rows = before.into_values().collect();
            screen.away = Some(why);
        }
    }
    screen.looks += 1;
    screen.took = began.elapsed();
}

fn holder(found: &Listed) -> Option<&str> {
    found.holder.as_ref().map(|holder| holder.field())
}

/// Those that are worth most attention first.
fn sorted(screen: &Screen, sort: Sort) -> Vec<Seen> {
    let mut rows = screen.rows.clone();
    let held = |seen: &Seen| if seen.found.holders > 0 { seen.since.elapsed() } else { Duration::ZERO };
    rows.sort_by(|one, other| {
        let by = match sort {
            Sort::Queue => other.found.waiting.cmp(&one.found.waiting),
            Sort::Held => held(other).cmp(&held(one)),
            Sort::Busy => other.turns.cmp(&one.turns),
        };
        by.then_with(|| one.found.name.cmp(&other.found.name))
    });
    rows
}

fn draw(frame: &mut Frame, screen: &Screen, sort: Sort) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
    let count = |is: fn(&Listed) -> bool| screen.rows.iter().filter(|seen| is(&seen.found)).count();
    let held = count(|found| found.holders > 0);
    let queued: u64 = screen.rows.iter().map(|seen| seen.found.waiting).sum();
    let cut = if screen.is_cut { " or more" } else { "" };
    let state = match &screen.away {
        Some(why) => format!("UNREACHABLE, this is what was seen before: {}", clean(why)),
        None => format!(
            "{}{cut} objects, {held} held, {queued} in queues, a look takes {}",
            screen.rows.len(),
            brief(screen.took)
        ),
    };
    frame.render_widget(Line::from(state).style(Style::new().add_modifier(Modifier::BOLD)), head);
    let rows = sorted(screen, sort).into_iter().map(|seen| {
        let mut cells = ls::row(&seen.found);
        let is_held = seen.found.holders > 0 && seen.found.what != What::Plain;
        let since = if is_held { format!("{}+", brief(seen.since.elapsed())) } else { "-".to_owned() };
        let turns = seen.turns.to_string();
        cells.splice(3..3, [since, turns]);
        Row::new(cells.into_iter().map(Cell::from))
    });
    let widths = [
        Constraint::Fill(3),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Fill(4),
    ];
    let heads = Row::new(["NAME", "KIND", "LEASE", "FOR", "TURNS", "HELD", "WAIT", "HOLDER"]);
    let heads = heads.style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_widget(Table::new(rows, widths).header(heads), body);
    let by = match sort {
        Sort::Queue => "the longest queues",
        Sort::Held => "the longest holds",
        Sort::Busy => "the busiest",
    };
    frame.render_widget(Line::from(format!("{by} first   w queues  h holds  b busy  q quit")), foot);
}

/// A frame as lines.
fn as_text(screen: &Screen, sort: Sort) -> Result<Vec<String>, Failure> {
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, HEIGHT)).map_err(Failure::unreachable)?;
    terminal.draw(|frame| draw(frame, screen, sort)).map_err(Failure::unreachable)?;
    let buffer = terminal.backend().buffer();
    let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    let lines = cells.chunks(usize::from(WIDTH)).map(|cells| cells.concat().trim_end().to_owned());
    Ok(lines.filter(|line| !line.is_empty()).collect())
}

/// On a terminal, until somebody quits.
async fn live(locks: &Locks, args: Top) -> Outcome {
    let (shown, screen) = watch::channel((Screen::default(), args.sort));
    let (keys, mut pressed) = mpsc::unbounded_channel();
    // Restored however this ends: on a panic too.
    let terminal = ratatui::try_init().map_err(Failure::unreachable)?;
    let painter = std::thread::spawn(move || paint(terminal, &screen, &keys));
    let mut seen = Screen::default();
    let mut sort = args.sort;
    let ended = 'live: loop {
        look(locks, &args.pattern, &mut seen).await;
        shown.send_replace((seen.clone(), sort));
        let pause = tokio::time::Instant::now() + args.interval;
        loop {
            let left = pause.saturating_duration_since(tokio::time::Instant::now());
            match timeout(left, pressed.recv()).await {
                Ok(Some(Key::Sort(by))) => {
                    sort = by;
                    shown.send_replace((seen.clone(), sort));
                }
                // Nobody paints any more: the terminal is gone.
                Ok(Some(Key::Quit) | None) => break 'live End::Done,
                Err(_) => break,
            }
        }
    };
    drop(shown);
    let _ = painter.join();
    ratatui::restore();
    Ok(ended)
}

enum Key {
    Sort(Sort),
    Quit,
}

/// Paints what there is, and reads keys, until one side ends.
fn paint(
    mut terminal: ratatui::DefaultTerminal,
    screen: &watch::Receiver<(Screen, Sort)>,
    keys: &mpsc::UnboundedSender<Key>,
) {
    while screen.has_changed().is_ok() {
        let (shown, sort) = screen.borrow().clone();
        if terminal.draw(|frame| draw(frame, &shown, sort)).is_err() {
            return;
        }
        let key = match event::poll(Duration::from_millis(200)).and_then(|ready| {
            if ready {
                event::read().map(Some)
            } else {
                Ok(None)
            }
        }) {
            Ok(Some(Event::Key(key))) if key.kind == KeyEventKind::Press => key,
            Ok(_) => continue,
            Err(_) => return,
        };
        let told = match key.code {
            KeyCode::Char('w') => Key::Sort(Sort::Queue),
            KeyCode::Char('h') => Key::Sort(Sort::Held),
            KeyCode::Char('b') => Key::Sort(Sort::Busy),
            KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
            _ => continue,
        };
        if keys.send(told).is_err() {
            return;
        }
    }
}
