import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { describeError, errorCodes } from '../src/errors.ts'
import { languages } from '../src/texts/choose.ts'
import { en } from '../src/texts/en.ts'
import { openWholeProgram } from '../src/cli/program.ts'
import { errorTextsIn } from './error-texts.ts'
import { idleShell } from './kit/command.ts'
import { descriptionsIn, docCommentsIn, textsOf } from './source-texts.ts'
import { patterns, readTwiceIn, unwantedIn, words } from './unwanted-words.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

async function readers(): Promise<string[]> {
  const below = async (folder: string, isWanted: (name: string) => boolean) =>
    (await readdir(join(root, folder), { recursive: true })).filter(isWanted).map((name) => `${folder}/${name}`)
  return [
    ...(await below('src', (name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))),
    ...(await below('docs/build', (name) => name.endsWith('.md'))),
    ...(await below('docs/operate', (name) => name.endsWith('.md'))),
    ...(await below('docs/decisions', (name) => name.endsWith('.md'))),
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

/** Documents, and folders of documents, that hold to the rules for sentences. Add each when it is rewritten. */
const REWRITTEN = [
  'README.md',
  'ARCHITECTURE.md',
  'SECURITY.md',
  'CONTRIBUTING.md',
  'docs/README.md',
  'docs/decisions',
  'docs/how-it-works.md',
  'docs/build',
  'docs/operate',
  'docs/evidence/README.md',
  'docs/evidence/mutation.md',
  'docs/evidence/proof.md',
  'docs/evidence/security.md',
  'docs/reference',
  'src/signer/README.md',
  'src/signer/SECURITY.md',
]
const MAX_WORDS = 25

const sentencesOf = (text: string): string[] => text.split(/(?<=[.!?]\*{0,2})\s+/)

const wordsIn = (sentence: string): number => sentence.split(/\s+/).filter((word) => /[\p{L}\d]/u.test(word)).length

/** Places of sentences that are too long or read twice. */
const faultsOf = (place: string, text: string): string[] => [
  ...readTwiceIn(place, text),
  ...sentencesOf(text).flatMap((sentence) => {
    const count = wordsIn(sentence)
    return count > MAX_WORDS ? [`${place}: ${count} words: ${sentence}`] : []
  }),
]

/** The prose of a document: paragraphs, items of lists and cells, without code, names in code and addresses of links. */
const proseOf = (markdown: string): string[] =>
  markdown
    .replaceAll(/```[\s\S]*?```|<!--[\s\S]*?-->|<a id="\w+"><\/a>|(?<=\])\([^\s)]*\)/g, '')
    .replaceAll(/`[^`\n]+`/g, '`code`')
    // A cell may list several things.
    .replaceAll(/^\|.*$/gm, (row) => row.replaceAll('; ', ' | '))
    .split(/\n\s*\n|\n(?=[-*|#] ?|\d+\. )|\|/)
    .map((part) => part.replaceAll(/\s+/g, ' ').trim())

test('each code of an error has a title of 2 to 6 words, a help and a text for users in each language', () => {
  for (const code of errorCodes) {
    const { title, help } = describeError(code)
    const count = title.split(' ').length
    assert.ok(count >= 2 && count <= 6 && /^[A-Z].*[^.]$/.test(title), `${code}: ${title}`)
    assert.match(help, /^[A-Z`].*\.$/, code)
    for (const { language, userMessages } of languages)
      assert.match(userMessages[code], /[.。]$/, `${language} ${code}`)
    assert.ok(sentencesOf(en.userMessages[code]).length <= 4, `${code}: a text for users is short`)
  }
  for (const { language, userMessages } of languages) assert.deepEqual(Object.keys(userMessages), errorCodes, language)
})

test('texts of errors are read once: short sentences, the actor named, one word for one thing', async () => {
  const found = errorCodes.flatMap((code) => {
    const { title, help } = describeError(code)
    const messages = languages.map(({ userMessages }) => userMessages[code])
    return [
      ...[title, help, en.userMessages[code]].flatMap((text) => faultsOf(code, text)),
      ...messages.flatMap((text) => faultsOf(code, text).filter((fault) => / words: /.test(fault))),
    ]
  })
  const files = (await readers()).filter((file) => /^src\/(?!texts\/).*\.ts$/.test(file))
  let count = 0
  for (const file of files) {
    for (const { line, text, isSentence } of errorTextsIn(file, await readFile(join(root, file), 'utf8'))) {
      count++
      found.push(...faultsOf(`${file}:${line}`, text))
      if (isSentence && !/^[A-Z`0-9]/.test(text)) found.push(`${file}:${line}: starts in lower case: ${text}`)
    }
  }
  assert.ok(count > 500, String(count))
  assert.deepEqual(found, [])
})

test('the help of commands is read once', async () => {
  const found: string[] = []
  const walkCommands = (command: Command, path: string): void => {
    for (const text of [
      command.description(),
      ...command.options.map((one) => one.description),
      ...command.registeredArguments.map((one) => one.description),
    ])
      // prettier-ignore
      found.push(...faultsOf(path, text.replaceAll(/`[^`]+`/g, '`code`')))
    for (const one of command.commands) walkCommands(one, `${path} ${one.name()}`)
  }
  const program = await openWholeProgram(idleShell())
  assert.ok(program.commands.length > 15)
  walkCommands(program, 'chatelaine')
  assert.deepEqual(found, [])
})

test('the English texts of pages are read once', () => {
  const texts = textsOf({ ...en, userMessages: {} })
  assert.ok(texts.length > 250, String(texts.length))
  const found = texts.flatMap(([path, text]) => faultsOf(`en${path}`, text))
  assert.deepEqual(found, [])
})

test('the descriptions of the OpenAPI document are read once', async () => {
  const found: string[] = []
  let count = 0
  for (const file of (await readers()).filter((one) =>
    /^src\/(?!cli\/|signer\/).*(?:wire|openapi)[\w-]*\.ts$/.test(one),
  ))
    for (const { line, text } of descriptionsIn(file, await readFile(join(root, file), 'utf8'))) {
      count++
      for (const part of proseOf(text)) found.push(...faultsOf(`${file}:${line}`, part))
    }
  assert.ok(count > 250, String(count))
  assert.deepEqual(found, [])
})

/** Words of the code itself, which its comments use: `Refusal`, `packed`, `keep-alive`, and “what”, “where” and “says” of a value. */
const OF_CODE = /: (?:what|, where ?|says?|said|tells?|refus\w+|room|packs?|packed|carried|proven|keeps?|kept) →/i

test('doc comments of exported names are read once; 95 of 100 of their sentences have at most 25 words', async () => {
  const lengths: number[] = []
  const found: string[] = []
  for (const file of (await readers()).filter((one) => /^src\/(?!texts\/).*\.ts$/.test(one)))
    for (const { line, text } of docCommentsIn(await readFile(join(root, file), 'utf8'))) {
      lengths.push(...sentencesOf(text).map(wordsIn))
      found.push(...sentencesOf(text).flatMap((one) => readTwiceIn(`${file}:${line}`, one)))
    }
  assert.deepEqual(
    found.filter((one) => !OF_CODE.test(one)),
    [],
  )
  assert.ok(lengths.length > 4_000, String(lengths.length))
  const p95 = lengths.toSorted((a, b) => a - b)[Math.floor(lengths.length * 0.95)]!
  assert.ok(p95 <= MAX_WORDS, `p95: ${p95} words`)
})

test('documents that were rewritten are read once', async () => {
  const files = (await readers()).filter((file) => REWRITTEN.some((one) => file === one || file.startsWith(`${one}/`)))
  assert.ok(files.length >= REWRITTEN.length)
  const found: string[] = []
  for (const file of files)
    found.push(...proseOf(await readFile(join(root, file), 'utf8')).flatMap((part) => faultsOf(file, part)))
  assert.deepEqual(found, [])
})

test('every pattern of a sentence that is read twice is found where it is written', () => {
  const written = ['what was told', 'Who has it, wins.', 'it has the key signed', 'Done, where nothing else is', 'nothing of it', 'Of both only one', 'this one, too', 'a person', 'it is told', 'it is gone', 'it is kept', 'carried by it', 'it is refused', 'its fee is raised', 'a lane', 'is filled', 'looked up', 'programs that are apart', 'a drill', 'it is believed', 'it took in', 'mended', 'no room', 'once more', 'a stand-in', 'inside your own', 'under way'] // prettier-ignore
  assert.equal(written.length, patterns.length)
  for (const [index, text] of written.entries())
    assert.ok(
      readTwiceIn('src/x.ts', text).some((found) => found.endsWith(patterns[index]![1])),
      text,
    )
})
