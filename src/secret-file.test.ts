import assert from 'node:assert/strict'
import { test } from 'node:test'
import { whoElseReads } from './secret-file.ts'

test('a secret is its user’s alone; root may hand one to a service’s group', () => {
  const cases: [mode: number, uid: number, seen: RegExp | null][] = [
    [0o100600, 7, null],
    [0o100400, 7, null],
    [0o100440, 0, null],
    [0o100600, 0, null],
    [0o100644, 7, /every user/],
    [0o100604, 0, /every user/],
    [0o100640, 7, /a group/],
    [0o100620, 0, /a group/],
    [0o100600, 8, /another user/],
    [0o100440, 8, /another user/],
  ]
  for (const [mode, uid, seen] of cases) {
    const said = whoElseReads({ mode, uid }, 7)
    if (seen === null) assert.equal(said, null, mode.toString(8))
    else assert.match(said!, seen, `${mode.toString(8)} ${uid}`)
  }
  assert.match(whoElseReads({ mode: 0o100640, uid: 0 }, 0)!, /a group/)
})
