import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { openState, slot } from './state.ts'

suite('state', () => {
  const visits = slot('visits of a test', (_owner: { name: string; state: ReturnType<typeof openState> }) => ({
    count: 0,
  }))
  const owner = (name: string) => ({ name, state: openState() })

  test('is of one owner, and of nobody else', () => {
    const [one, other] = [owner('one'), owner('other')]
    visits.of(one).count++
    assert.equal(visits.of(one).count, 1)
    assert.equal(visits.of(other).count, 0)
  })

  test('begins at the first look, with what its owner is', () => {
    const greetings = slot('greetings of a test', ({ name }: ReturnType<typeof owner>) => ({ text: `hello ${name}` }))
    assert.equal(greetings.of(owner('one')).text, 'hello one')
  })

  test('is listed by name once it has begun, and gone when it is cleared', () => {
    const one = owner('one')
    assert.deepEqual(one.state.list(), [])
    visits.of(one).count++
    assert.deepEqual(one.state.list(), ['visits of a test'])
    one.state.clear()
    assert.deepEqual(one.state.list(), [])
    assert.equal(visits.of(one).count, 0)
  })

  test('has no two slots of one name', () => {
    assert.throws(() => slot('visits of a test', () => ({})), /two slots are named visits of a test/)
  })
})
