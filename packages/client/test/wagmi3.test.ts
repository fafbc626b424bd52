// tier: all, because it needs the foreign packages
import { test } from 'node:test'
import { world } from '../../../test/world.ts'
import { useWagmi, type Wagmi } from './use-wagmi.ts'

const CORE = '../../../e2e/foreign/node_modules/wagmi3/node_modules/@wagmi/core/dist/esm/exports/index.js'

test('wagmi 3 connects, is connected after a reload, switches, sends, signs and disconnects', async (t) => {
  const here = await world()
  t.after(() => here.close())
  await useWagmi((await import(CORE)) as Wagmi, here)
})
