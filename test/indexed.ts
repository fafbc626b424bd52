import { until } from './kit/until.ts'
import type { Person, World } from './world.ts'

/** Resolves once the history has reached the block that is the newest now. */
export async function indexed(world: World, { userId, get }: Person): Promise<void> {
  const newest = Number(await world.rpc('eth_blockNumber'))
  await until('the history reaches the newest block', async () => {
    const { headers } = await get(`/v1/users/${userId}/history?limit=1`)
    return Number(headers.get('x-indexed-to-block')) >= newest
  })
}
