import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url))

/** The program with arguments and no settings; a server that started would be ended, and have no exit code of its own. */
const run = (...words: string[]): Promise<{ code: number | null; out: string; err: string }> =>
  new Promise((resolve) => {
    const { PATH, NODE_COMPILE_CACHE } = process.env
    const env = { PATH, NODE_COMPILE_CACHE, PORT: '0', CHAIN_PORT: '0', DATA_DIR: '/nonexistent/chatelaine' }
    const child = execFile(process.execPath, [MAIN, ...words], { env, timeout: 60_000 }, (_error, out, err) =>
      resolve({ code: child.exitCode, out, err }),
    )
  })

test('asked for help, the program says how it is started and starts nothing', async () => {
  for (const word of ['--help', '-h']) {
    const { code, out, err } = await run(word)
    assert.deepEqual([code, err], [0, ''])
    assert.match(out, /^Usage: npm start/)
    assert.match(out, /docs\/reference\/configuration\.md/)
  }
})

test('an argument that it does not know is refused before anything is started', async () => {
  for (const words of [['--port', '5000'], ['--help', '--prot'], ['serve']]) {
    const { code, out, err } = await run(...words)
    assert.deepEqual([code, out], [1, ''])
    assert.match(err, /^Unknown argument (--port|--prot|serve)\.\n\nUsage/)
  }
})
