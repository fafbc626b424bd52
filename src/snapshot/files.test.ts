import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { configKeys } from '../config.ts'
import { collectFiles, FILES, isFileName, NOT_FILES } from './files.ts'

/** Settings of the server that name a path. */
const paths = Object.entries(configKeys)
  .filter(([, { kind, part }]) => kind === 'path' && part !== 'signer')
  .map(([name]) => name)

test('what a setting of the server names is in a backup, or it is said why not', () => {
  assert.deepEqual([...Object.keys(FILES), ...Object.keys(NOT_FILES)].toSorted(), paths.toSorted())
  for (const [name, reason] of Object.entries(NOT_FILES)) assert.match(reason, /^.{10,}$/, name)
})

test('each file that the settings name is collected, under a name of its own, and with the settings that name it', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-files-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const env = Object.fromEntries(Object.keys(FILES).map((setting) => [setting, join(folder, setting)]))
  const contentOf = (setting: string) => (setting === 'PROVIDERS_FILE' ? '[]' : `what ${setting} holds`)
  for (const [setting, path] of Object.entries(env)) writeFileSync(path, contentOf(setting))
  const collected = new Map(collectFiles(env, folder).map(({ name, content }) => [name, content.toString()]))
  assert.equal(collected.size, Object.keys(FILES).length + 1)
  for (const [setting, name] of Object.entries(FILES)) {
    assert.equal(collected.get(name), contentOf(setting))
    assert.ok(isFileName(name))
    assert.match(collected.get('settings.env')!, new RegExp(`^${setting}='.*/${setting}'$`, 'm'))
  }
  // The longest size that a restore accepts.
  const tokens = { KNOWN_TOKENS_FILE: env.KNOWN_TOKENS_FILE! }
  writeFileSync(tokens.KNOWN_TOKENS_FILE, ' '.repeat(4_194_304))
  assert.equal(collectFiles(tokens, folder).find(({ name }) => name === 'known-tokens.json')!.content.length, 4_194_304)
  writeFileSync(tokens.KNOWN_TOKENS_FILE, ' '.repeat(4_194_305))
  assert.throws(() => collectFiles(tokens, folder), /KNOWN_TOKENS_FILE names a file of more than 4 MiB/)
  rmSync(tokens.KNOWN_TOKENS_FILE)
  assert.throws(() => collectFiles(tokens, folder), /KNOWN_TOKENS_FILE cannot be read/)
})
