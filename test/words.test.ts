import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { unwantedIn, words } from './unwanted-words.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

async function readers(): Promise<string[]> {
  const below = async (folder: string, isWanted: (name: string) => boolean) =>
    (await readdir(join(root, folder), { recursive: true })).filter(isWanted).map((name) => `${folder}/${name}`)
  return [
    ...(await below('src', (name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))),
    ...(await below('docs/build', (name) => name.endsWith('.md'))),
    ...(await below('docs/operate', (name) => name.endsWith('.md'))),
    ...(await below('docs/evidence', (name) => name.endsWith('.md'))),
    ...(await below('docs/reference', (name) => name.endsWith('.md'))),
    ...[
      'README.md',
      'SECURITY.md',
      'ARCHITECTURE.md',
      'CONTRIBUTING.md',
      'docs/README.md',
      'docs/how-it-works.md',
      'docs/glossary.md',
      'docs/states.md',
      'src/signer/README.md',
      'src/signer/SECURITY.md',
    ],
  ]
}

test('words that make a native engineer stumble are not used', async () => {
  const files = await readers()
  assert.ok(files.length > 250)
  const found: string[] = []
  for (const file of files) found.push(...unwantedIn(file, await readFile(join(root, file), 'utf8')))
  assert.deepEqual(found, [])
})

test('every one of these words is found where it is written', () => {
  const written = ['what was taken back', 'Our fault', "'Too late'", 'mine goes on.', 'it came to nothing', 'given up for good', 'The signer knows transactions of', 'a key of keys', 'thaw it', 'what a node says wrongly', 'two coins', 'the native coin', "'follower leads'", "'no number: status'", 'it comes in crumbs', 'names less gas than', 'final no more', 'it is no object', 'in the air', 'isOutOfBreath: out of breath', 'the how-manieth', 'for ever', 'somebody', 'whoever asks', 'it stands in the list', 'cannot be told', 'the operator is told', 'BadAnswer', 'movements', 'forgetGrant', 'FOLLOW_STRICT', 'export type Place = {}'] // prettier-ignore
  assert.equal(written.length, words.length)
  for (const [index, text] of written.entries())
    assert.ok(
      unwantedIn('src/x.ts', text).some((found) => found.endsWith(words[index]![1])),
      text,
    )
})
