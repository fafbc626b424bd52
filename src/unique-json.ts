/** A text that is no JSON, or in which an object has a name twice; the text of the error repeats only that name. */
export class JsonInvalid extends Error {
  constructor(problem: string) {
    super(problem)
    this.name = 'JsonInvalid'
  }
}

/**
 * Parses JSON in which every name is unique per object. Of two fields with one name, a reader sees the first and a parser uses the
 * last.
 * @throws JsonInvalid
 */
export function readUniqueJson(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    // The message repeats part of its input, which may be another file by mistake, such as a private key.
    const [place] = /(?:line \d+ column|position) \d+/.exec((cause as Error).message) ?? ['']
    throw new JsonInvalid(`it is not JSON${place === '' ? '' : ` (${place})`}`)
  }
  const twice = findTwice(text)
  if (twice !== null) throw new JsonInvalid(`the name ${twice} is used twice in one object`)
  return value
}

/** A longer name is cut in the error. */
const MAX_NAME = 128

/** Finds the first name that an object of a valid JSON text contains twice, as JSON. */
function findTwice(text: string): string | null {
  const names: (Set<string> | null)[] = []
  for (const [token, quoted, colon] of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\]]/gs)) {
    if (token === '{') names.push(new Set())
    else if (token === '[') names.push(null)
    else if (token === '}' || token === ']') names.pop()
    else if (colon !== undefined) {
      const name = JSON.parse(quoted!) as string
      const known = names.at(-1)!
      if (known!.has(name)) return JSON.stringify(name.slice(0, MAX_NAME))
      known!.add(name)
    }
  }
  return null
}
