// tier: all, because its wallet libraries are of the foreign packages
import { test } from 'node:test'
import { useWagmi, type Wagmi } from '../../packages/client/test/use-wagmi.ts'
import { world } from '../../test/world.ts'

test('wagmi 3 connects, is connected after a reload, switches, sends, signs and disconnects', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const address = './node_modules/wagmi3/node_modules/@wagmi/core/dist/esm/exports/index.js'
  await useWagmi((await import(address)) as Wagmi, here)
})
