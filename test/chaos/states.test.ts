// tier: all, because it kills processes and nodes under load
import { strict as assert } from 'node:assert'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { LEGAL } from './transactions-rows.ts'

test('docs/reference/states.md lists the changes of state that the judge of the proof allows, and no others', async () => {
  const page = await readFile(new URL('../../docs/reference/states.md', import.meta.url), 'utf8')
  const listed = new Map<string, Set<string>>()
  const transactions = page.split('\n## Account queue')[0]!
  for (const [, from, to] of transactions.matchAll(/^\| `([A-Z]+)` \| `([A-Z]+)` \|/gm))
    listed.set(from!, (listed.get(from!) ?? new Set()).add(to!))
  for (const [from, allowed] of Object.entries(LEGAL)) {
    // A row says nothing of itself before its caller is told something: what begins there begins at START for the judge.
    if (from === 'START' || from === 'BOUND') continue
    assert.deepEqual([...(listed.get(from) ?? [])].toSorted(), [...new Set(allowed)].toSorted(), from)
  }
  assert.deepEqual(
    [...listed.keys()].toSorted(),
    [
      'BOUND',
      'VACANT',
      ...Object.keys(LEGAL).filter((from) => !['START', 'BOUND', 'FINALIZED'].includes(from)),
    ].toSorted(),
  )
})
