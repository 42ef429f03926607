//! The key bindings: those of Emacs, those of the menu, and pasting.

use crossterm::event::Event;
use reedline::{
    EditCommand, EditMode, Emacs, KeyCode, KeyModifiers, PromptEditMode, ReedlineEvent,
    ReedlineRawEvent, default_emacs_keybindings,
};

use super::menu;
use crate::sanitize;

/// The host command that reedline returns for Ctrl-Z.
pub(super) const STOP: &str = "stop";

/// The bindings of Emacs, with pasted text sanitized: copied text may contain characters that
/// its reader did not see, and it goes to the screen, to a model and into the history.
pub(super) struct Keys(Emacs);

impl Keys {
    pub(super) fn new() -> Self {
        let mut keys = default_emacs_keybindings();
        let menu = || ReedlineEvent::Menu(menu::NAME.to_owned());
        // Tab takes the selected entry. In a menu that Tab opened, Enter takes an entry too,
        // whatever it would do otherwise.
        let chosen = || ReedlineEvent::MenuRight;
        let take = ReedlineEvent::Multiple(vec![chosen(), ReedlineEvent::MenuAccept]);
        let open = ReedlineEvent::Multiple(vec![menu(), chosen()]);
        let tab = ReedlineEvent::UntilFound(vec![take, open]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, tab);
        // The code of an Enter that was typed before the editor had the terminal.
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), ReedlineEvent::Enter);
        let stop = ReedlineEvent::ExecuteHostCommand(STOP.to_owned());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('z'), stop);
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
        for (modifier, key) in [
            (KeyModifiers::NONE, '@'),
            (KeyModifiers::SHIFT, '@'),
            (KeyModifiers::NONE, '/'),
            // An argument begins after it.
            (KeyModifiers::NONE, ' '),
        ] {
            let insert = || ReedlineEvent::Edit(vec![EditCommand::InsertChar(key)]);
            let opening = ReedlineEvent::Multiple(vec![insert(), menu()]);
            // A search of the history takes characters and opens nothing.
            let event = ReedlineEvent::UntilFound(vec![opening, insert()]);
            keys.add_binding(modifier, KeyCode::Char(key), event);
        }
        Self(Emacs::new(keys))
    }
}

impl EditMode for Keys {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        match event.into() {
            Event::Paste(text) => {
                let lines = text.replace("\r\n", "\n").replace('\r', "\n");
                let text = sanitize(&lines).into_owned();
                ReedlineEvent::Edit(vec![EditCommand::InsertString(text)])
            }
            event => match ReedlineRawEvent::try_from(event) {
                Ok(event) => self.0.parse_event(event),
                // The release of a key, which was handled before this.
                Err(()) => ReedlineEvent::None,
            },
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.0.edit_mode()
    }
}
