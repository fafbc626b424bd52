import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'

const script = readFileSync(new URL('approve.js', import.meta.url), 'utf8')

/** A page with the button, whose time passes only when it is told to. */
function open() {
  const button = { disabled: false, dataset: { waits: '700' }, style: { pointerEvents: '' } }
  const listeners = new Map<string, (() => void)[]>()
  let now = 0
  let timer: { at: number; run: () => void } | null = null
  const addEventListener = (type: string, listener: () => void) =>
    void listeners.set(type, [...(listeners.get(type) ?? []), listener])
  const querySelector = (selector: string) => (selector.startsWith('button') ? button : null)
  const page: Record<string, unknown> = { document: { querySelector, addEventListener }, window: { opener: null } }
  page.addEventListener = addEventListener
  page.setTimeout = (run: (value: unknown) => void, ms: number, value: unknown) =>
    (timer = { at: now + ms, run: () => run(value) })
  page.clearTimeout = () => void (timer = null)
  runInNewContext(script, page)
  const pass = (ms: number) => {
    now += ms
    const due = timer
    if (due === null || due.at > now) return
    timer = null
    due.run()
  }
  const happens = (type: string) => listeners.get(type)!.forEach((listener) => listener())
  return { button, pass, happens }
}

test('the button to approve works after a quiet moment, which each press in it starts again', () => {
  const { button, pass, happens } = open()
  for (const type of ['pointerdown', 'keydown', 'focus', 'pageshow', 'visibilitychange'])
    for (let times = 0; times < 20; times++) {
      pass(699)
      assert.deepEqual([button.disabled, button.style.pointerEvents], [true, 'none'], type)
      happens(type)
    }
  pass(699)
  assert.equal(button.disabled, true)
  pass(1)
  assert.deepEqual([button.disabled, button.style.pointerEvents], [false, ''])
})

test('a press on the button that works approves, and a page that comes back waits again', () => {
  const { button, pass, happens } = open()
  pass(700)
  for (const type of ['pointerdown', 'keydown']) {
    happens(type)
    assert.equal(button.disabled, false, type)
  }
  happens('focus')
  assert.equal(button.disabled, true)
})
