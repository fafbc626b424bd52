import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { command } from '../../test/kit/command.ts'
import { migratedFolder } from '../../test/kit/database.ts'
import { makePlace, startSigner } from '../../test/kit/signer.ts'
import type { App } from '../app.ts'
import { connectSigner } from '../signer-wire/client.ts'
import { openEmbedded } from '../store/db.ts'
import { keepHead, recallHead } from './keep.ts'

test('a store that was made anew gets nothing from a server that has kept a head, until its operator says so', async (t) => {
  const [place, folder] = [await makePlace(), mkdtempSync(join(tmpdir(), 'chatelaine-forget-'))]
  await migratedFolder(join(folder, 'db'))
  t.after(() => {
    place.clear()
    rmSync(folder, { recursive: true, force: true })
  })
  const logged: string[] = []
  const telemetry = { log: { error: (event: string) => logged.push(event) } } as unknown as App['telemetry']
  /** As a server does it at a start, with the database of the folder. */
  async function serverOf(): Promise<{ ask: () => Promise<string>; keep: () => Promise<void> }> {
    const db = await openEmbedded({ dir: join(folder, 'db') })
    const signer = connectSigner({ path: place.env.SIGNER_SOCKET! })
    await recallHead({ db, signer })
    return {
      ask: () => signer.createAccount({ userId: 'X-1' }).then(({ address }) => address),
      async keep() {
        await keepHead({ db, telemetry }, signer.head()!)
        signer.close()
        await db.destroy()
      },
    }
  }

  const first = await startSigner(place)
  const server = await serverOf()
  const address = await server.ask()
  await server.keep()
  await first.end('SIGTERM')
  // Someone without the master key cannot make a signature of the old identity; an empty store is the easiest new one.
  rmSync(place.env.SIGNER_DIR!, { recursive: true })
  const second = await startSigner(place)
  t.after(() => second.end('SIGKILL'))
  const refused = await serverOf()
  await assert.rejects(refused.ask(), { code: 'ledger_damaged' })
  await assert.rejects(refused.ask(), { code: 'ledger_damaged' })
  await refused.keep()

  const operator = (...words: string[]) => command({ DATA_DIR: folder }, ['signing-log', ...words])
  const { out } = await operator('show')
  const [, identity] = /Identity +(chatelaine-signing-log\/[0-9a-f]{16})\n +Records +1\n/.exec(out)!
  const wrong = await operator('forget', 'chatelaine-signing-log/0000000000000000')
  assert.deepEqual([wrong.code, /no signed head of this signer/.test(wrong.err)], [1, true])
  assert.deepEqual((await operator('forget', identity!)).code, 0)
  assert.equal((await operator('show')).out, 'No head is stored.\n')
  const actions = await command({ DATA_DIR: folder }, ['actions', 'list', '--json'])
  assert.match(actions.out, /"action": "forget-signing-log"/)
  const believing = await serverOf()
  assert.notEqual(await believing.ask(), address)
  await believing.keep()
  assert.deepEqual(logged, [])
})
