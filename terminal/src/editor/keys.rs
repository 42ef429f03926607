//! What keys do: Emacs' bindings, those of the menu, and pasting.

use crossterm::event::Event;
use reedline::{
    EditCommand, EditMode, Emacs, KeyCode, KeyModifiers, PromptEditMode, ReedlineEvent,
    ReedlineRawEvent, default_emacs_keybindings,
};

use super::menu;
use crate::harmless;

/// What reedline is made to say of Ctrl-Z.
pub(super) const STOP: &str = "stop";

/// Emacs, to whom nothing is pasted that a terminal would obey: what was copied elsewhere is
/// not what its reader saw, and it goes to the screen, to a model and into the history.
pub(super) struct Keys(Emacs);

impl Keys {
    pub(super) fn new() -> Self {
        let mut keys = default_emacs_keybindings();
        let menu = || ReedlineEvent::Menu(menu::NAME.to_owned());
        // Who presses Tab has chosen what it takes, and what Enter takes from a menu that it
        // opened, whatever Enter would do otherwise.
        let chosen = || ReedlineEvent::MenuRight;
        let take = ReedlineEvent::Multiple(vec![chosen(), ReedlineEvent::MenuAccept]);
        let open = ReedlineEvent::Multiple(vec![menu(), chosen()]);
        let tab = ReedlineEvent::UntilFound(vec![take, open]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, tab);
        // What Enter is where it was typed while the terminal was not the editor's yet.
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), ReedlineEvent::Enter);
        let stop = ReedlineEvent::ExecuteHostCommand(STOP.to_owned());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('z'), stop);
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
        for (modifier, key) in [
            (KeyModifiers::NONE, '@'),
            (KeyModifiers::SHIFT, '@'),
            (KeyModifiers::NONE, '/'),
            // Arguments begin behind it.
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
                let text = harmless(&lines).into_owned();
                ReedlineEvent::Edit(vec![EditCommand::InsertString(text)])
            }
            event => match ReedlineRawEvent::try_from(event) {
                Ok(event) => self.0.parse_event(event),
                // The release of a key, which was told apart before this.
                Err(()) => ReedlineEvent::None,
            },
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.0.edit_mode()
    }
}
