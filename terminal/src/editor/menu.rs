//! The completion menu below the cursor.

use reedline::{
    Completer, Editor, IdeMenu, Menu, MenuBuilder as _, MenuEvent, MenuSettings, Painter,
    Suggestion,
};

use crate::finder::EmptyWordFlag;

/// The name by which key bindings open the menu.
pub(super) const NAME: &str = "finder";

/// The most rows that the menu has.
const ROWS: u16 = 10;

/// reedline's menu, hidden while it has no suggestions. It opens with each `@`, and ordinary text
/// follows most of those.
pub(super) struct Popup {
    menu: IdeMenu,
    /// `true` if the line has changed since the menu was filled. Keys come in bursts, and an Enter
    /// at the end of a burst is not meant for the suggestions from its beginning.
    is_behind: bool,
    unasked: EmptyWordFlag,
    /// `true` if the user has moved in the menu, or pressed Tab.
    is_chosen: bool,
}

impl Popup {
    pub(super) fn new(unasked: EmptyWordFlag) -> Self {
        let menu = IdeMenu::default()
            .with_name(NAME)
            .with_marker("")
            .with_max_completion_height(ROWS)
            .with_max_completion_width(76)
            .with_max_description_width(60)
            .with_correct_cursor_pos(true);
        Self { menu, is_behind: false, unasked, is_chosen: false }
    }

    fn is_empty(&self) -> bool {
        self.menu.get_values().is_empty()
    }
}

impl Menu for Popup {
    fn settings(&self) -> &MenuSettings {
        self.menu.settings()
    }

    fn is_active(&self) -> bool {
        self.menu.is_active()
    }

    fn set_active(&mut self, active: bool) {
        self.menu.set_active(active);
    }

    fn clear_input(&mut self) {
        self.menu.clear_input();
    }

    fn on_activate(&mut self) {
        self.menu.on_activate();
    }

    fn menu_event(&mut self, event: MenuEvent) {
        match event {
            MenuEvent::Edit(_) => (self.is_behind, self.is_chosen) = (true, false),
            MenuEvent::Activate(_) | MenuEvent::Deactivate => self.is_chosen = false,
            _ => self.is_chosen = true,
        }
        // In a list of one column, moving sideways only means that the user has chosen.
        if !matches!(event, MenuEvent::MoveRight) {
            self.menu.menu_event(event);
        }
    }

    fn can_quick_complete(&self) -> bool {
        self.menu.can_quick_complete()
    }

    fn can_partially_complete(
        &mut self,
        values_updated: bool,
        editor: &mut Editor,
        completer: &mut dyn Completer,
    ) -> bool {
        self.menu.can_partially_complete(values_updated, editor, completer)
    }

    fn update_values(&mut self, editor: &mut Editor, completer: &mut dyn Completer) {
        self.menu.update_values(editor, completer);
    }

    fn reset_position(&mut self) {
        self.menu.reset_position();
    }

    fn update_working_details(
        &mut self,
        editor: &mut Editor,
        completer: &mut dyn Completer,
        painter: &Painter,
    ) {
        self.menu.update_working_details(editor, completer, painter);
        self.is_behind = false;
        if self.is_empty() && !self.menu.results_are_provisional() {
            self.menu.menu_event(MenuEvent::Deactivate);
        }
    }

    fn replace_in_buffer(&self, editor: &mut Editor) {
        self.menu.replace_in_buffer(editor);
    }

    fn menu_required_lines(&self, terminal_columns: u16) -> u16 {
        if self.is_empty() { 0 } else { self.menu.menu_required_lines(terminal_columns) }
    }

    fn menu_string(&self, available_lines: u16, use_ansi_coloring: bool) -> String {
        if self.is_empty() {
            return String::new();
        }
        self.menu.menu_string(available_lines, use_ansi_coloring)
    }

    fn min_rows(&self) -> u16 {
        if self.is_empty() { 0 } else { self.menu.min_rows().min(ROWS) }
    }

    fn get_values(&self) -> &[Suggestion] {
        let is_for_the_line = self.unasked.get() && !self.is_chosen;
        if self.is_behind || is_for_the_line { &[] } else { self.menu.get_values() }
    }

    fn results_are_provisional(&self) -> bool {
        self.menu.results_are_provisional()
    }

    fn is_awaiting_first_answer(&self) -> bool {
        self.menu.is_awaiting_first_answer()
    }

    fn set_cursor_pos(&mut self, position: (u16, u16)) {
        self.menu.set_cursor_pos(position);
    }
}
