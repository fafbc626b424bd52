import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readArguments } from './arguments.ts'

const options = {
  accept: { type: 'string', multiple: true, default: [] as string[] },
  json: { type: 'boolean' },
} as const

const read = (...args: string[]) => {
  const { values, positionals } = readArguments({ args, options, allowPositionals: true })
  return [values.accept, values.json, positionals]
}

test('a value may begin with a dash; what is no value is still an option, a word, or wrong', () => {
  assert.deepEqual(read('--accept', '-a', '--accept', '--b', 'file'), [['-a', '--b'], undefined, ['file']])
  assert.deepEqual(read('--accept=-a', '--json', 'file'), [['-a'], true, ['file']])
  assert.deepEqual(read('--accept', 'a', '--', '--accept', '-b'), [['a'], undefined, ['--accept', '-b']])
  assert.throws(() => read('--accept'), /argument missing/)
  assert.throws(() => read('--json', '-a'), /Unknown option '-a'/)
  assert.throws(() => read('--other', 'a'), /Unknown option '--other'/)
})
