// CodeMirror for YAML, in a shadow root: there it uses constructed style sheets, which the content security policy
// allows; in the page itself it would insert style elements, which the policy refuses.
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import { HighlightStyle, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { EditorState, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  EditorView,
  WidgetType,
  highlightActiveLine,
  keymap,
  lineNumbers,
  type DecorationSet,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { visible } from '../../lib/text';
import type { Mark } from './document';

const theme = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--background)', color: 'var(--text)', fontSize: '12px' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '20px', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--text)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--secondary)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'var(--hover)' },
  '.cm-mark-error': { textDecoration: 'underline wavy var(--bad)', textUnderlineOffset: '3px' },
  '.cm-mark-warning': { textDecoration: 'underline wavy var(--warn)', textUnderlineOffset: '3px' },
  '.cm-note': { padding: '2px 8px 2px 12px', whiteSpace: 'pre-wrap', fontFamily: 'var(--font)' },
  '.cm-note-error': {
    color: 'var(--bad)',
    borderLeft: '2px solid var(--bad)',
    backgroundColor: 'color-mix(in srgb, var(--bad) 8%, transparent)',
  },
  '.cm-note-warning': {
    color: 'var(--warn)',
    borderLeft: '2px solid var(--warn)',
    backgroundColor: 'color-mix(in srgb, var(--warn) 8%, transparent)',
  },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: [tags.string, tags.content], color: 'var(--text)' },
  { tag: [tags.comment, tags.lineComment], color: 'var(--secondary)', fontStyle: 'italic' },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: 'var(--secondary)' },
]);

class Note extends WidgetType {
  constructor(readonly mark: Mark) {
    super();
  }

  override eq(other: Note): boolean {
    return other.mark.message === this.mark.message && other.mark.kind === this.mark.kind;
  }

  override toDOM(): HTMLElement {
    const element = document.createElement('div');
    element.className = `cm-note cm-note-${this.mark.kind}`;
    element.textContent = visible(this.mark.message);
    return element;
  }
}

const setMarks = StateEffect.define<Mark[]>();

const markField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(found, transaction) {
    let made = found.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(setMarks)) made = decorate(transaction.state, effect.value);
    }
    return made;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function decorate(state: EditorState, marks: Mark[]): DecorationSet {
  const size = state.doc.length;
  return Decoration.set(
    marks.flatMap((mark) => {
      const line = state.doc.lineAt(Math.min(mark.from, size));
      const from = Math.min(mark.from, size);
      const to = Math.min(Math.max(mark.to, from), line.to);
      const note = Decoration.widget({ widget: new Note(mark), side: 1, block: true }).range(line.to);
      if (to <= from) return [note];
      return [Decoration.mark({ class: `cm-mark-${mark.kind}` }).range(from, to), note];
    }),
    true,
  );
}

export interface YamlView {
  setText(text: string): void;
  setMarks(marks: Mark[]): void;
  goTo(at: number): void;
  destroy(): void;
}

interface Options {
  text: string;
  label: string;
  onchange: (text: string) => void;
  onsave: () => void;
}

export function yamlView(host: HTMLElement, { text, label, onchange, onsave }: Options): YamlView {
  const root = host.attachShadow({ mode: 'open' });
  let quiet = false;
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        highlightActiveLine(),
        indentUnit.of('  '),
        keymap.of([
          { key: 'Mod-s', preventDefault: true, run: () => (onsave(), true) },
          ...defaultKeymap,
          ...historyKeymap,
        ]),
        yaml(),
        syntaxHighlighting(colours),
        theme,
        markField,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !quiet) onchange(update.state.doc.toString());
        }),
      ],
    }),
  });
  // Letters typed here are not keys of the page.
  const keep = (event: KeyboardEvent) => void (event.metaKey || event.ctrlKey || event.stopPropagation());
  host.addEventListener('keydown', keep);

  return {
    setText(wanted) {
      const now = view.state.doc.toString();
      if (now === wanted) return;
      let head = 0;
      while (head < now.length && now[head] === wanted[head]) head += 1;
      let tail = 0;
      const most = Math.min(now.length, wanted.length) - head;
      while (tail < most && now[now.length - 1 - tail] === wanted[wanted.length - 1 - tail]) tail += 1;
      quiet = true;
      view.dispatch({
        changes: { from: head, to: now.length - tail, insert: wanted.slice(head, wanted.length - tail) },
      });
      quiet = false;
    },
    setMarks: (marks) => view.dispatch({ effects: setMarks.of(marks) }),
    goTo(at) {
      view.dispatch({ selection: { anchor: Math.min(at, view.state.doc.length) }, scrollIntoView: true });
      view.focus();
    },
    destroy() {
      host.removeEventListener('keydown', keep);
      view.destroy();
    },
  };
}
