import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { FolderInUse, lockFolder } from './folder-lock.ts'

const freshFolder = () => mkdtemp(join(tmpdir(), 'chatelaine-lock-'))

test('a folder has one holder at a time', async () => {
  const folder = await freshFolder()
  const release = await lockFolder(folder)
  await assert.rejects(lockFolder(folder), FolderInUse)
  await release()
  await (
    await lockFolder(folder)
  )()
})

test('a lock left by a killed process is not honoured', async () => {
  const folder = await freshFolder()
  const holder = spawn(
    process.execPath,
    [
      '-e',
      `import(${JSON.stringify(new URL('folder-lock.ts', import.meta.url).href)}).then((m) => m.lockFolder(${JSON.stringify(folder)})).then(() => { console.log('held'); setInterval(() => {}, 1000) })`,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  await once(holder.stdout, 'data')
  await assert.rejects(lockFolder(folder), FolderInUse)
  holder.kill('SIGKILL')
  await once(holder, 'exit')
  await (
    await lockFolder(folder)
  )()
})

test('a lock that names a reused process id is not honoured', async () => {
  const folder = await freshFolder()
  await writeFile(join(folder, 'lock'), `${process.pid} 1\n`)
  await (
    await lockFolder(folder)
  )()
})
