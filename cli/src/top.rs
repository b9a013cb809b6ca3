//! `top`: a live screen of the longest queues, the longest holds and the busiest locks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use lockson::{Listed, Locks, What};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use ratatui::{DefaultTerminal, Frame, Terminal};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use serde_json::json;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::args::{Sort, Top};
use crate::ls;
use crate::out::{brief, clean, Out};
use crate::{End, Failure, Outcome};

/// The size of a frame that is printed as text.
const WIDTH: u16 = 120;
/// It is as high as what it shows, up to this.
const HIGHEST: u16 = 200;
/// Of them, those beside the rows: two heads and a foot.
const BESIDE: u16 = 3;
/// How long keys are waited for before the screen is drawn anew.
const PAUSE: Duration = Duration::from_millis(200);
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
    /// Who was seen to hold what, last, and how often it was another one: of what is free just now too.
    turns: BTreeMap<String, (String, u64)>,
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
        if let (Some(why), true) = (&screen.away, out.json) {
            // What was seen before is no answer to what there is now.
            out.value(&json!({ "unreachable": why }))?;
            continue;
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
            let turns = &mut screen.turns;
            let seen = |found: Listed| {
                let turns = counted(turns, &found);
                let before = before.remove(&found.name).filter(|old| holder(&old.found) == holder(&found));
                Seen { found, since: before.map_or(began, |old| old.since), turns }
            };
            screen.rows = all.into_values().map(seen).collect();
            if screen.turns.len() > 2 * MOST {
                let names: BTreeSet<&String> = screen.rows.iter().map(|seen| &seen.found.name).collect();
                screen.turns.retain(|name, _| names.contains(name));
            }
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

/// How often another one has held it, as far as was seen.
fn counted(turns: &mut BTreeMap<String, (String, u64)>, found: &Listed) -> u64 {
    let Some(holder) = holder(found) else { return turns.get(&found.name).map_or(0, |(_, count)| *count) };
    let (last, count) = turns.entry(found.name.clone()).or_insert_with(|| (holder.to_owned(), 0));
    if last != holder {
        (*last, *count) = (holder.to_owned(), *count + 1);
    }
    *count
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
    let shown = usize::from(body.height.saturating_sub(1));
    let left_out = match screen.rows.len().saturating_sub(shown) {
        0 => String::new(),
        count => format!("   {count} more are not shown"),
    };
    frame.render_widget(Line::from(format!("{by} first{left_out}   w queues  h holds  b busy  q quit")), foot);
}

/// A frame as lines.
fn as_text(screen: &Screen, sort: Sort) -> Result<Vec<String>, Failure> {
    let height = u16::try_from(screen.rows.len()).unwrap_or(HIGHEST).saturating_add(BESIDE).min(HIGHEST);
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, height)).map_err(Failure::unreachable)?;
    terminal.draw(|frame| draw(frame, screen, sort)).map_err(Failure::unreachable)?;
    let buffer = terminal.backend().buffer();
    let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    let lines = cells.chunks(usize::from(WIDTH)).map(|cells| cells.concat().trim_end().to_owned());
    Ok(lines.filter(|line| !line.is_empty()).collect())
}

/// On a terminal, until somebody quits, or it is gone.
async fn live(locks: &Locks, args: Top) -> Outcome {
    let (shown, screen) = watch::channel(Screen::default());
    let (painting, mut painted) = oneshot::channel::<()>();
    let end = |kind| signal(kind).map_err(Failure::unreachable);
    let (mut interrupted, mut terminated) = (end(SignalKind::interrupt())?, end(SignalKind::terminate())?);
    let mut hung_up = end(SignalKind::hangup())?;
    // Restored however this ends: on a panic too.
    let terminal = ratatui::try_init().map_err(Failure::unreachable)?;
    std::thread::spawn(move || {
        paint(terminal, &screen, args.sort);
        drop(painting);
    });
    let looks = async {
        let mut seen = Screen::default();
        loop {
            look(locks, &args.pattern, &mut seen).await;
            shown.send_replace(seen.clone());
            sleep(args.interval).await;
        }
    };
    let is_painted = tokio::select! {
        // Somebody quits.
        _ = &mut painted => true,
        () = looks => false,
        () = gone() => false,
        _ = interrupted.recv() => false,
        _ = terminated.recv() => false,
        _ = hung_up.recv() => false,
    };
    drop(shown);
    // What reads keys tries again for ever where the terminal is gone: it ends with the process then.
    if !is_painted && !is_gone() {
        let _ = timeout(2 * PAUSE, painted).await;
    }
    // Of one that is gone nothing can be restored, and nobody could be told.
    let _ = ratatui::try_restore();
    Ok(End::Done)
}

/// Until the terminal is gone.
async fn gone() {
    while !is_gone() {
        sleep(PAUSE).await;
    }
}

fn is_gone() -> bool {
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let seen = poll(&mut fds, Some(&Timespec::default()));
    seen.is_ok() && fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
}

enum Key {
    Sort(Sort),
    Quit,
}

/// Paints what there is, and reads keys, until one side ends.
fn paint(mut terminal: DefaultTerminal, screen: &watch::Receiver<Screen>, mut sort: Sort) {
    while screen.has_changed().is_ok() {
        let shown = screen.borrow().clone();
        let drawn = terminal.draw(|frame| draw(frame, &shown, sort)).map(|_| ());
        match drawn.and_then(|()| key()) {
            Ok(None) => {}
            Ok(Some(Key::Sort(by))) => sort = by,
            Ok(Some(Key::Quit)) | Err(_) => break,
        }
    }
    if is_gone() {
        // It would say that it can't show the cursor, where nobody is, and end with a panic.
        std::mem::forget(terminal);
    }
}

/// The next key that means something, if one comes soon.
fn key() -> std::io::Result<Option<Key>> {
    if !event::poll(PAUSE)? {
        return Ok(None);
    }
    let Event::Key(key) = event::read()? else { return Ok(None) };
    Ok(match key.code {
        _ if key.kind != KeyEventKind::Press => None,
        KeyCode::Char('w') => Some(Key::Sort(Sort::Queue)),
        KeyCode::Char('h') => Some(Key::Sort(Sort::Held)),
        KeyCode::Char('b') => Some(Key::Sort(Sort::Busy)),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        _ => None,
    })
}
