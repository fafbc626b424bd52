// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// For tests: a wallet whose owner signs (ERC-1271), and answers in whatever way a test says.
contract SmartWallet {
    enum Mood {
        Honest,
        AlwaysYes,
        No,
        Reverts,
        Empty,
        Short,
        Dirty,
        Endless
    }

    address public immutable owner;
    Mood public mood;

    constructor(address owner_) {
        owner = owner_;
    }

    function become(Mood next) external {
        mood = next;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        if (mood == Mood.AlwaysYes) return this.isValidSignature.selector;
        if (mood == Mood.No) return 0xffffffff;
        if (mood == Mood.Reverts) revert("no");
        if (mood == Mood.Empty) _answer(0, 0);
        if (mood == Mood.Short) _answer(bytes32(this.isValidSignature.selector), 4);
        if (mood == Mood.Dirty) _answer(bytes32(this.isValidSignature.selector) | bytes32(uint256(1)), 32);
        if (mood == Mood.Endless) _answer(bytes32(this.isValidSignature.selector), 2_000_000);
        bool isOwn = signature.length == 65
            && ecrecover(hash, uint8(signature[64]), bytes32(signature[:32]), bytes32(signature[32:64])) == owner;
        return isOwn ? this.isValidSignature.selector : bytes4(0xffffffff);
    }

    function _answer(bytes32 word, uint256 size) private pure {
        assembly {
            mstore(0, word)
            return(0, size)
        }
    }
}

/// Makes such wallets at addresses that are known before.
contract SmartWalletFactory {
    function make(address owner, bytes32 salt) external returns (address) {
        return address(new SmartWallet{salt: salt}(owner));
    }
}
