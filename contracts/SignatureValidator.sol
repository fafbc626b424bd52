// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

interface IContractWallet {
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4);
}

/// Checks a signature of a contract that may not be deployed yet, and is never deployed itself: its init code is the data of an
/// eth_call without a recipient, and returns one byte instead of code. Source: ERC-6492.
contract SignatureValidator {
    /// @param signature abi.encode(factory, data for the factory, signature for the wallet), and 32 bytes that say so
    constructor(address wallet, bytes32 hash, bytes memory signature) {
        bool isValid = _isValid(wallet, hash, signature);
        assembly ("memory-safe") {
            mstore8(0, isValid)
            return(0, 1)
        }
    }

    function _isValid(address wallet, bytes32 hash, bytes memory signature) private returns (bool) {
        // The last 32 bytes only mark the form: the decoder reads by offset and does not see them.
        (address factory, bytes memory data, bytes memory inner) = abi.decode(signature, (address, bytes, bytes));
        // A deployed wallet answers as it is; one that needs a preparation gets it below.
        if (_accepts(wallet, hash, inner)) return true;
        (bool isMade,) = factory.call(data);
        return isMade && _accepts(wallet, hash, inner);
    }

    function _accepts(address wallet, bytes32 hash, bytes memory signature) private view returns (bool) {
        (bool isAnswered, bytes memory answer) = wallet.staticcall(abi.encodeCall(IContractWallet.isValidSignature, (hash, signature)));
        return isAnswered && answer.length >= 32 && bytes32(answer) == bytes32(IContractWallet.isValidSignature.selector);
    }
}
