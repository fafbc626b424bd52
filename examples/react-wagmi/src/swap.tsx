import { useMutation } from '@tanstack/react-query'
import { formatEther, parseAbi, parseEther, parseSignature, type Address } from 'viem'
import { useAccount, usePublicClient, useReadContracts, useSignTypedData, useWriteContract } from 'wagmi'

const { VITE_SOLD: sold, VITE_BOUGHT: bought, VITE_ROUTER: router } = import.meta.env as Record<string, Address>
const token = parseAbi([
  'function balanceOf(address) view returns (uint256)',
  'function nonces(address) view returns (uint256)',
  'function mint(address to, uint256 amount)',
])
const routerAbi = parseAbi(['function swapWithPermit(address sold, address bought, uint256 amount, uint256 deadline, uint8 v, bytes32 r, bytes32 s)']) // prettier-ignore
const amount = parseEther('4')
const Permit = Object.entries({ owner: 'address', spender: 'address', value: 'uint256', nonce: 'uint256', deadline: 'uint256' }).map(([name, type]) => ({ name, type })) // prettier-ignore

export function Swap() {
  const { address: owner, chainId } = useAccount()
  const network = usePublicClient()!
  const { signTypedDataAsync } = useSignTypedData()
  const { writeContractAsync } = useWriteContract()
  const balanceOf = (address: Address) => ({ address, abi: token, functionName: 'balanceOf', args: [owner!] }) as const
  const { data: held, refetch } = useReadContracts({
    contracts: [balanceOf(sold), balanceOf(bought)],
    allowFailure: false,
    query: { enabled: owner !== undefined },
  })
  const mined = async (sent: Promise<`0x${string}`>) => {
    const { status } = await network.waitForTransactionReceipt({ hash: await sent })
    if (status === 'reverted') throw new Error('The contract rejected it.')
  }

  /** Signs a permit for the amount, which costs no gas, and swaps with it in one transaction. */
  async function swap() {
    const nonce = await network.readContract({ address: sold, abi: token, functionName: 'nonces', args: [owner!] })
    const deadline = BigInt(Math.floor(Date.now() / 1_000) + 20 * 60)
    const signature = await signTypedDataAsync({
      domain: { name: 'Permit Token', version: '1', chainId, verifyingContract: sold },
      types: { Permit },
      primaryType: 'Permit',
      message: { owner, spender: router, value: amount, nonce, deadline },
    })
    const { r, s, v } = parseSignature(signature)
    await mined(writeContractAsync({ address: router, abi: routerAbi, functionName: 'swapWithPermit', args: [sold, bought, amount, deadline, Number(v), r, s] })) // prettier-ignore
  }
  const mint = () =>
    mined(writeContractAsync({ address: sold, abi: token, functionName: 'mint', args: [owner!, parseEther('10')] }))
  const { mutate, isPending, error } = useMutation({ mutationFn: (act: () => Promise<void>) => act(), onSettled: () => refetch() }) // prettier-ignore

  if (owner === undefined) return <p>Connect a wallet to swap tokens.</p>
  return (
    <>
      <p role="status">
        {held === undefined ? 'One moment' : `${formatEther(held[0])} PRMT, ${formatEther(held[1])} SMPL`}
      </p>
      <button disabled={isPending} onClick={() => mutate(mint)}>
        Mint 10 PRMT
      </button>
      <button disabled={isPending} onClick={() => mutate(swap)}>
        Swap 4 PRMT
      </button>
      {error !== null && <p role="alert">{error.message}</p>}
    </>
  )
}
