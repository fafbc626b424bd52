/** What a browser keeps of a sign-in. The private key of `keys` cannot be read, and without it the refresh token is worth nothing. */
export type StoredSession = {
  /** random; a renewal keeps it */
  signInId: string
  keys: CryptoKeyPair
  refreshToken: string
  permissions: string[]
}

/** A sign-in that has begun: what the callback needs. */
export type Pending = {
  keys: CryptoKeyPair
  state: string
  nonce: string
  verifier: string
  redirectUri: string
  /** `popup`: the page that began waits for the answer; `redirect`: the callback page goes back to `returnTo` */
  mode: 'popup' | 'redirect'
  returnTo: string
  /** milliseconds since 1970 */
  begunAt: number
}

/** The sign-ins that have begun, by `state`. */
export type Begun = Record<string, Pending>

/** A small store of the browser that keeps keys as objects. */
export type Store = {
  get<T>(key: string): Promise<T | undefined>
  /** Changes an entry in one step: `change` gets the present value, and `undefined` deletes it. @returns the new value */
  update<T>(key: string, change: (value: T | undefined) => T | undefined): Promise<T | undefined>
}

const DATABASE = 'chatelaine'
const ENTRIES = 'entries'

/** Opens the store in IndexedDB. It is opened with the first call. */
export function indexedDbStore(): Store {
  let opened: Promise<IDBDatabase> | null = null
  const open = () =>
    (opened ??= new Promise<IDBDatabase>((resolve, reject) => {
      const request = indexedDB.open(DATABASE, 1)
      request.onupgradeneeded = () => void request.result.createObjectStore(ENTRIES)
      request.onsuccess = () => {
        const database = request.result
        // The browser or another page deletes the data: the next call opens it again.
        database.onversionchange = () => {
          database.close()
          opened = null
        }
        database.onclose = () => void (opened = null)
        resolve(database)
      }
      request.onerror = () => {
        opened = null
        reject(request.error ?? new Error('IndexedDB cannot be opened.'))
      }
    }))

  async function transact<T>(
    mode: IDBTransactionMode,
    work: (entries: IDBObjectStore, done: (value: T) => void) => void,
  ) {
    const database = await open()
    return new Promise<T>((resolve, reject) => {
      const transaction = database.transaction(ENTRIES, mode, {
        // A crash must not bring back a refresh token that was used already: the service would end the session.
        durability: 'strict',
      })
      let result: T
      transaction.oncomplete = () => resolve(result)
      transaction.onabort = () => reject(transaction.error ?? new Error('IndexedDB aborted a transaction.'))
      work(transaction.objectStore(ENTRIES), (value) => {
        result = value
      })
    })
  }

  return {
    get: (key) =>
      transact('readonly', (entries, done: (value: never) => void) => {
        const request = entries.get(key)
        request.onsuccess = () => done(request.result as never)
      }),
    update: (key, change) =>
      transact('readwrite', (entries, done: (value: never) => void) => {
        const request = entries.get(key)
        request.onsuccess = () => {
          const value = change(request.result as never)
          if (value === undefined) entries.delete(key)
          else entries.put(value, key)
          done(value as never)
        }
      }),
  }
}
