import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Command } from 'commander'
import { addWays, collect, said, type Ways } from './options.ts'

type Fields = { name: string; uris: string[]; cap: number | null; isOpen: boolean }
const ways: Ways<Fields> = {
  name: ['--name <name>', 'a text as it is'],
  uris: ['--uri <uri>', 'a list', collect],
  cap: ['--fee-cap <wei>', 'a text that is read', (text) => (text === 'default' ? null : Number(text))],
  isOpen: ['--closed', 'a value', false],
}
const waysBack: Ways<Pick<Fields, 'uris'>> = { uris: ['--no-uri', 'no list', []] }

test('of what a command is given every field that is said has its value, and no other is there', () => {
  for (const [words, expected] of [
    ['', {}],
    ['--name ', { name: '' }],
    ['--uri a --uri b', { uris: ['a', 'b'] }],
    ['--fee-cap 7', { cap: 7 }],
    ['--fee-cap default', { cap: null }],
    ['--closed', { isOpen: false }],
    ['--no-uri', { uris: [] }],
    ['--no-uri --uri a', { uris: ['a'] }],
  ] as const) {
    const command = addWays(addWays(new Command(), ways), waysBack)
    command.parse(words === '' ? [] : words.split(' '), { from: 'user' })
    assert.deepEqual({ ...said(waysBack, command.opts()), ...said(ways, command.opts()) }, expected, words)
  }
})
