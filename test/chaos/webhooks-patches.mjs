/**
 * `node --import ./test/chaos/webhooks-patches.mjs`: modules of src/ with other text in them, as CHAOS_PATCHES lists it. A
 * patch is a file below src/, a text that is in it exactly once, and its replacement.
 */
import { registerHooks } from 'node:module'

const patches = Map.groupBy(JSON.parse(process.env.CHAOS_PATCHES), ([file]) => `/src/${file}`)

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context)
    const wanted = [...patches].find(([file]) => url.endsWith(file))
    if (wanted === undefined) return loaded
    let source = typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source)
    for (const [file, from, to] of wanted[1]) {
      if (source.split(from).length !== 2) throw new Error(`${from} is not in ${file} once`)
      source = source.replace(from, () => to)
    }
    return { ...loaded, source }
  },
})
