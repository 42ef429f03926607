//! The key bindings: Emacs keys, menu keys, keys that the program handles, and pasting.

use crossterm::event::{Event, KeyEvent, KeyEventKind};
use reedline::{
    EditCommand, EditMode, Emacs, KeyCode, KeyModifiers, PromptEditMode, ReedlineEvent,
    ReedlineRawEvent, default_emacs_keybindings,
};

use super::menu;
use crate::sanitize;

/// The host command that reedline returns for Ctrl-Z.
pub(super) const STOP: &str = "stop";

/// The host command for Ctrl-O.
pub(super) const MORE: &str = "more";

/// The host command for Ctrl-X Ctrl-E, as in bash.
pub(super) const EDIT: &str = "edit";

/// Returns a pasted text with the line ends of the editor and without characters that the terminal
/// would obey.
pub(super) fn pasted(text: &str) -> String {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    sanitize(&lines).into_owned()
}

/// The bindings of Emacs, with pasted text sanitized. Copied text may contain characters that the
/// user did not see, and it goes to the screen, to a model and into the history.
pub(super) struct KeyBindings {
    emacs: Emacs,
    /// `true` if lines are read, `false` if answers are read.
    is_for_lines: bool,
    /// `true` after Ctrl-X, which is the first key of two.
    has_prefix: bool,
}

impl KeyBindings {
    pub(super) fn for_lines() -> Self {
        Self::new(true)
    }

    /// Returns the bindings for answers, which can only be lines.
    pub(super) fn for_answers() -> Self {
        Self::new(false)
    }

    fn new(is_for_lines: bool) -> Self {
        let mut keys = default_emacs_keybindings();
        let menu = || ReedlineEvent::Menu(menu::NAME.to_owned());
        // Tab takes the selected entry. In a menu that Tab opened, Enter also takes an entry; its
        // other meanings do not apply there.
        let chosen = || ReedlineEvent::MenuRight;
        let take = ReedlineEvent::Multiple(vec![chosen(), ReedlineEvent::MenuAccept]);
        let open = ReedlineEvent::Multiple(vec![menu(), chosen()]);
        let tab = ReedlineEvent::UntilFound(vec![take, open]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, tab);
        // The code of an Enter that was typed before the editor had the terminal.
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), ReedlineEvent::Enter);
        let stop = ReedlineEvent::ExecuteHostCommand(STOP.to_owned());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('z'), stop);
        let more = ReedlineEvent::ExecuteHostCommand(MORE.to_owned());
        let more = if is_for_lines { more } else { ReedlineEvent::None };
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), more);
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
        for (modifier, key) in [
            (KeyModifiers::NONE, '@'),
            (KeyModifiers::SHIFT, '@'),
            (KeyModifiers::NONE, '/'),
            // A space begins an argument.
            (KeyModifiers::NONE, ' '),
        ] {
            let insert = || ReedlineEvent::Edit(vec![EditCommand::InsertChar(key)]);
            let opening = ReedlineEvent::Multiple(vec![insert(), menu()]);
            // A search of the history takes these characters as text, and opens no menu.
            let event = ReedlineEvent::UntilFound(vec![opening, insert()]);
            keys.add_binding(modifier, KeyCode::Char(key), event);
        }
        Self { emacs: Emacs::new(keys), is_for_lines, has_prefix: false }
    }
}

fn is_control(event: &Event, wanted: char) -> bool {
    matches!(event, Event::Key(KeyEvent { code: KeyCode::Char(c), modifiers, kind, .. })
        if *c == wanted && *modifiers == KeyModifiers::CONTROL && *kind != KeyEventKind::Release)
}

impl EditMode for KeyBindings {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event: Event = event.into();
        let has_prefix = std::mem::take(&mut self.has_prefix);
        match event {
            Event::Paste(text) => {
                ReedlineEvent::Edit(vec![EditCommand::InsertString(pasted(&text))])
            }
            event if has_prefix && self.is_for_lines && is_control(&event, 'e') => {
                ReedlineEvent::ExecuteHostCommand(EDIT.to_owned())
            }
            event if is_control(&event, 'x') => {
                self.has_prefix = true;
                ReedlineEvent::None
            }
            event => match ReedlineRawEvent::try_from(event) {
                Ok(event) => self.emacs.parse_event(event),
                // The release of a key. Its press was handled before.
                Err(()) => ReedlineEvent::None,
            },
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.emacs.edit_mode()
    }
}
