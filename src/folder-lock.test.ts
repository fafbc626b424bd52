import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { FolderInUse, lockFolder } from './folder-lock.ts'

const freshFolder = () => mkdtemp(join(tmpdir(), 'chatelaine-lock-'))
const heldBy = (holder: string) => (error: unknown) => error instanceof FolderInUse && error.holder === holder

/** Another process that holds it, and to which nobody refers there. */
async function holderOf(t: TestContext, folder: string) {
  const module = JSON.stringify(new URL('folder-lock.ts', import.meta.url).href)
  const code = `import(${module}).then((m) => { m.lockFolder(${JSON.stringify(folder)}); setTimeout(() => { gc(); console.log('held') }); setInterval(() => {}, 1000) })`
  const holder = spawn(process.execPath, ['--expose-gc', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => holder.kill('SIGKILL'))
  await once(holder.stdout, 'data')
  return holder
}

test('a folder has one holder at a time', async () => {
  const folder = await freshFolder()
  const release = lockFolder(folder)
  assert.throws(() => lockFolder(folder), heldBy(String(process.pid)))
  release()
  lockFolder(folder)()
})

test('another process is refused, is told who holds it, and gets it when that was killed', async (t) => {
  const folder = await freshFolder()
  const holder = await holderOf(t, folder)
  assert.throws(() => lockFolder(folder), heldBy(String(holder.pid)))
  holder.kill('SIGKILL')
  await once(holder, 'exit')
  lockFolder(folder)()
})

test('who holds it is not asked of process ids: those of another container say nothing here', async (t) => {
  const folder = await freshFolder()
  await holderOf(t, folder)
  // No process of this machine: where containers share a folder, each counts its own from 1.
  await writeFile(join(folder, 'folder.lock.holder'), '4194999 web-1\n')
  assert.throws(() => lockFolder(folder), heldBy('4194999 on web-1'))
  await writeFile(join(folder, 'folder.lock.holder'), '')
  assert.throws(() => lockFolder(folder), heldBy('?'))
})

test('a name that was left behind holds nothing', async () => {
  const folder = await freshFolder()
  await writeFile(join(folder, 'folder.lock.holder'), `${process.pid} ${hostname()}\n`)
  lockFolder(folder)()
})

test('a folder that cannot be written is not in use', async () => {
  assert.throws(
    () => lockFolder('/nowhere/at/all'),
    (error) => !(error instanceof FolderInUse),
  )
})
