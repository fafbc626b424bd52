import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { test } from 'node:test'
import { world } from '../../../test/world.ts'
import { sessionOf } from './session-of.ts'

const GUIDE = new URL('../../../docs/build/client/provider.md', import.meta.url)

test('the examples of the guide work, in the order of the page', async (t) => {
  const here = await world()
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-guide-'))
  t.after(async () => {
    for (const name of PAGE) Reflect.deleteProperty(globalThis, name)
    await Promise.all([here.close(), rm(folder, { recursive: true })])
  })
  // What a page has, and the sign-in of the browser.
  const page = new EventTarget()
  for (const name of PAGE) Object.assign(globalThis, { [name]: page[name].bind(page) })
  let announced = ''
  page.addEventListener('eip6963:announceProvider', (event) => void (announced = (event as CustomEvent).detail.info.name)) // prettier-ignore
  Object.assign(globalThis, { sessionOfTest: sessionOf(here.alice) })

  const text = await readFile(GUIDE, 'utf8')
  const blocks = [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, block]) => block!)
  assert.equal(blocks.length, 5)
  const program = blocks.join('\n').replaceAll('http://localhost:4000', here.facts.origin)
  const imports = program.replaceAll(/from '([^']+)'/g, (_, name: string) => `from '${addressOf(name)}'`)
  const file = join(folder, 'guide.mjs')
  await writeFile(file, imports.replace(/^import \{ createSession \}.*$/m, 'const createSession = () => sessionOfTest'))
  await import(pathToFileURL(file).href)
  assert.equal(announced, 'Example Wallet')
  const { body } = await here.alice.get('/v1/transactions')
  assert.equal(body.length, 2)
})

const PAGE = ['addEventListener', 'removeEventListener', 'dispatchEvent'] as const

const addressOf = (name: string): string => {
  const [, own] = /^@chatelaine\/client\/(\w+)$/.exec(name) ?? []
  return own === undefined ? import.meta.resolve(name) : new URL(`../src/${own}/index.ts`, import.meta.url).href
}
