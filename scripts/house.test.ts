import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

const run = promisify(execFile)
const script = join(import.meta.dirname, 'house.mjs')

/** The first table of the script, by figure. */
async function figuresOf(...args: string[]): Promise<Map<string, string>> {
  const { stdout } = await run(process.execPath, [script, ...args])
  const rows = stdout.slice(0, stdout.indexOf('\n\n')).split('\n').slice(2)
  return new Map(rows.map((row) => [row.split(' | ')[0]!.slice(2), row.split(' | ')[1]!.replace(/ \|$/, '')]))
}

test('a circle of types, a type of two files, a WeakMap, an unwanted word and a way are counted', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-house-'))
  t.after(() => rm(folder, { recursive: true }))
  const files = {
    'a.ts': "import type { B } from './b.ts'\nexport type A = B\nexport type Place = 1\n",
    'b.ts': "import type { A } from './a.ts'\nexport type B = A\ntype Place = 2\n",
    'c.ts': 'export const seen = new WeakMap()\n// for somebody\n',
    'balances/routes.ts':
      "/**\n * balances: what an account holds.\n */\nimport { rpc } from '../chain/rpc/rpc.ts'\nrpc()\n",
    'chain/rpc/rpc.ts': 'export function rpc() {\n  return 1\n}\n',
  }
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(folder, 'src', name, '..'), { recursive: true })
    await writeFile(join(folder, 'src', name), text)
  }
  const figures = await figuresOf(folder)
  const counted = ['files of src, folders', 'circles of imports, with types', '`new WeakMap`', 'unwanted words, src', 'names of several types', 'entries with a caption', 'imports of a balance: route to JSON-RPC'] // prettier-ignore
  assert.deepEqual(
    counted.map((figure) => figures.get(figure)),
    ['5, 3', '0, 1', '1', '3', '1', '1 of 2', '1'],
  )
})
